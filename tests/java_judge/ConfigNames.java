import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;

/** Prints every option of Kafka's own consumer and producer: name, type and default, with tabs between them. */
public class ConfigNames {
    public static void main(String[] arguments) {
        TreeMap<String, ConfigDef.ConfigKey> keys = new TreeMap<>(ConsumerConfig.configDef().configKeys());
        keys.putAll(ProducerConfig.configDef().configKeys());
        keys.values().forEach(key -> {
            boolean isText = key.hasDefault() && key.defaultValue != null;
            String value = isText ? ConfigDef.convertToString(key.defaultValue, key.type) : "";
            System.out.println(key.name + "\t" + key.type + "\t" + value);
        });
    }
}
