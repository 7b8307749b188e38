import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;

import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;

/** Reads lines of "partitions key-in-hex", and prints the partition to which Kafka's producer sends such a key. */
public class Partitions {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            byte[] key = HexFormat.of().parseHex(words[1]);
            System.out.println(BuiltInPartitioner.partitionForKey(key, Integer.parseInt(words[0])));
        }
    }
}
