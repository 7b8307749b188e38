import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints the name of every option of Kafka's own consumer and producer. */
public class ConfigNames {
    public static void main(String[] arguments) {
        TreeSet<String> names = new TreeSet<>(ConsumerConfig.configNames());
        names.addAll(ProducerConfig.configNames());
        names.forEach(System.out::println);
    }
}
