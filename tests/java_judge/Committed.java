import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Reads lines of "hosts topic [partition]", and prints for each the values that a read_committed consumer sees, to its end. */
public class Committed {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            System.out.println(values(words[0], new TopicPartition(words[1], words.length > 2 ? Integer.parseInt(words[2]) : 0)));
        }
    }

    private static String values(String hosts, TopicPartition partition) {
        Map<String, Object> options = Map.of(
            "bootstrap.servers", hosts,
            "isolation.level", "read_committed",
            "auto.offset.reset", "earliest",
            "enable.auto.commit", false);
        StringBuilder found = new StringBuilder();
        try (var consumer = new KafkaConsumer<>(options, new StringDeserializer(), new StringDeserializer())) {
            List<TopicPartition> all = List.of(partition);
            consumer.assign(all);
            consumer.seekToBeginning(all);
            long end = consumer.endOffsets(all).get(partition);
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    found.append(record.value()).append(' ');
                }
            }
        }
        return found.toString().strip();
    }
}
