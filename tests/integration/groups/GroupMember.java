import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A member of Kafka's own Java client: it prints its share whenever that changes, until its input ends. The system property
 * "assignor" is its assignor's class; by default it has the client's. With "protocol" it takes part by that protocol.
 */
public class GroupMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        if (System.getProperty("protocol") != null) {
            settings.put("group.protocol", System.getProperty("protocol"));
        } else {
            settings.put("heartbeat.interval.ms", "200");
        }
        settings.put("metadata.max.age.ms", "1000");
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (System.getProperty("assignor") != null) {
            settings.put("partition.assignment.strategy", System.getProperty("assignor"));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(Arrays.asList(arguments).subList(2, arguments.length));
            String told = "";
            while (System.in.available() == 0) {
                consumer.poll(Duration.ofMillis(50));
                TreeSet<String> share = new TreeSet<>();
                for (TopicPartition key : consumer.assignment()) {
                    share.add(key.toString());
                }
                String now = String.join(" ", share);
                if (!now.equals(told)) {
                    System.out.println("share " + now);
                    told = now;
                }
            }
        }
    }
}
