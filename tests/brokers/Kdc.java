import java.io.File;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/** A KDC on 127.0.0.1 until it is killed: java Kdc.java REALM PORT DIRECTORY (PRINCIPAL KEYTAB)... */
public class Kdc {
    public static void main(String[] arguments) throws Exception {
        SimpleKdcServer server = new SimpleKdcServer();
        server.setWorkDir(new File(arguments[2]));
        server.setKdcHost("127.0.0.1");
        server.setKdcRealm(arguments[0]);
        server.setKdcTcpPort(Integer.parseInt(arguments[1]));
        server.setAllowUdp(false);
        server.init();
        for (int at = 3; at < arguments.length; at += 2) {
            server.createPrincipal(arguments[at]);
            server.exportPrincipal(arguments[at], new File(arguments[at + 1]));
        }
        server.start();
        System.out.println("ready");
        Thread.currentThread().join();
    }
}
