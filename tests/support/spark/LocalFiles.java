import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Local files of Hadoop, whose permissions the JVM sets itself. PySpark does not bring Hadoop's native library, and without it
 * Hadoop starts a process of `chmod` for each file and directory that a query makes.
 */
public final class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    private static final class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            Set<PosixFilePermission> granted = EnumSet.noneOf(PosixFilePermission.class);
            // In the order of the bits, from reading by the owner to execution by others.
            for (PosixFilePermission one : PosixFilePermission.values()) {
                if ((permission.toShort() & (0400 >> one.ordinal())) != 0) {
                    granted.add(one);
                }
            }
            Files.setPosixFilePermissions(pathToFile(path).toPath(), granted);
        }
    }

    /** The same by Hadoop's other interface, which checkpoints are written by. */
    public static final class Context extends ChecksumFs {
        public Context(URI uri, Configuration configuration) throws IOException, URISyntaxException {
            super(new RawContext(uri, configuration));
        }
    }

    private static final class RawContext extends DelegateToFileSystem {
        RawContext(URI uri, Configuration configuration) throws IOException, URISyntaxException {
            super(uri, new Raw(), configuration, "file", false);
        }

        @Override
        public int getUriDefaultPort() {
            return -1;
        }

        @Override
        public boolean isValidName(String source) {
            // As Hadoop's own: a local file may have any name.
            return true;
        }
    }
}
