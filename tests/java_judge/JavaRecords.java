import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;

/** Kafka's own record classes behind lines of text: one request a line, one answer a line. Bytes are hexadecimal, "-" is null. */
public class JavaRecords {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = switch (words[0]) {
                    case "write" -> write(words);
                    case "marker" -> marker(words);
                    case "read" -> read(words);
                    default -> "no such request";
                };
            } catch (Exception error) {
                answer = "error " + error;
            }
            System.out.println(answer.replace('\n', ' '));
            System.out.flush();
        }
    }

    /** write MAGIC CODEC TIMESTAMP_TYPE APPEND_TIME BASE_OFFSET PRODUCER_ID RECORD... */
    private static String write(String[] words) {
        byte magic = Byte.parseByte(words[1]);
        Compression codec = Compression.of(CompressionType.forId(Integer.parseInt(words[2]))).build();
        long producer = Long.parseLong(words[6]);
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 22), magic, codec,
            TimestampType.forName(words[3]), Long.parseLong(words[5]), Long.parseLong(words[4]), producer,
            (short) (producer < 0 ? -1 : 3), producer < 0 ? -1 : 7, producer >= 0, -1);
        for (int at = 7; at < words.length; at++) {
            String[] parts = words[at].split("/");
            List<Header> headers = new ArrayList<>();
            for (int h = 3; h < parts.length; h++) {
                String[] pair = parts[h].split("=");
                headers.add(new RecordHeader(new String(bytes(pair[0]), StandardCharsets.UTF_8), bytes(pair[1])));
            }
            builder.append(Long.parseLong(parts[0]), bytes(parts[1]), bytes(parts[2]), headers.toArray(new Header[0]));
        }
        return hex(builder.build().buffer());
    }

    /** marker commit|abort OFFSET */
    private static String marker(String[] words) {
        ControlRecordType type = words[1].equals("abort") ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
        return hex(MemoryRecords.withEndTransactionMarker(Long.parseLong(words[2]), 1000L, -1, 42L, (short) 3,
            new EndTransactionMarker(type, 5)).buffer());
    }

    /** read BYTES: of each batch its facts, then its records, checksums checked. */
    private static String read(String[] words) {
        StringBuilder answer = new StringBuilder();
        for (RecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(bytes(words[1]))).batches()) {
            batch.ensureValid();
            answer.append("batch/").append(batch.magic()).append('/').append(batch.compressionType().id).append('/')
                .append(batch.producerId()).append('/').append(batch.producerEpoch()).append('/')
                .append(batch.baseSequence()).append('/').append(batch.isTransactional()).append('/')
                .append(batch.maxTimestamp()).append('/').append(batch.lastOffset()).append(' ');
            for (Record record : batch) {
                record.ensureValid();
                answer.append(record.offset()).append('/').append(record.timestamp()).append('/')
                    .append(hex(record.key())).append('/').append(hex(record.value()));
                for (Header header : record.headers()) {
                    answer.append('/').append(hex(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))))
                        .append('=').append(header.value() == null ? "-" : hex(ByteBuffer.wrap(header.value())));
                }
                answer.append(' ');
            }
        }
        return answer.toString().trim();
    }

    private static byte[] bytes(String text) {
        return text.equals("-") ? null : text.equals(".") ? new byte[0] : HEX.parseHex(text);
    }

    private static String hex(ByteBuffer buffer) {
        if (buffer == null) {
            return "-";
        }
        byte[] copy = new byte[buffer.remaining()];
        buffer.duplicate().get(copy);
        return copy.length == 0 ? "." : HEX.formatHex(copy);
    }
}
