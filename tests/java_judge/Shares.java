import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Reads a topic in a share group: releases each record once, then accepts it. Standard input: hosts, group, topic, count. */
public class Shares {
    public static void main(String[] arguments) {
        Scanner in = new Scanner(System.in);
        Map<String, Object> settings =
            Map.of("bootstrap.servers", in.next(), "group.id", in.next(), "share.acknowledgement.mode", "explicit");
        StringDeserializer text = new StringDeserializer();
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings, text, text)) {
            consumer.subscribe(List.of(in.next()));
            int left = in.nextInt();
            long deadline = System.currentTimeMillis() + 60_000;
            while (left > 0 && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    int count = record.deliveryCount().get();
                    System.out.println(record.value() + " " + count);
                    consumer.acknowledge(record, count == 1 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    left -= count == 1 ? 0 : 1;
                }
                consumer.commitSync();
            }
        }
    }
}
