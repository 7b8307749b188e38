import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Reads lines of "hosts topic codec transactional-id ends count", and writes a transaction of so many messages for each letter
 * of the ends: c commits, a aborts. Messages are those of test_foreign_transactions.py.
 */
public class Transactions {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            Map<String, Object> options = Map.of(
                "bootstrap.servers", words[0],
                "compression.type", words[2],
                "transactional.id", words[3]);
            try (var producer = new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer())) {
                producer.initTransactions();
                for (int number = 0; number < words[4].length(); number++) {
                    producer.beginTransaction();
                    for (int each = 0; each < Integer.parseInt(words[5]); each++) {
                        producer.send(message(words[1], number, each));
                    }
                    producer.flush();
                    if (words[4].charAt(number) == 'c') {
                        producer.commitTransaction();
                    } else {
                        producer.abortTransaction();
                    }
                }
            }
        }
    }

    private static ProducerRecord<byte[], byte[]> message(String topic, int number, int each) {
        byte[] key = each % 5 == 0 ? null : ("k" + each).getBytes();
        byte[] value = each % 5 == 1 ? null : (number + "-" + each + " " + "x".repeat(each)).getBytes();
        List<Header> headers = new ArrayList<>();
        if (each % 3 != 0) {
            headers.add(new RecordHeader("h", String.valueOf(number).getBytes()));
            headers.add(new RecordHeader("empty", new byte[0]));
        }
        return new ProducerRecord<>(topic, 0, key, value, headers);
    }
}
