import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;

/** Copies a topic by Kafka Streams, as a member of a streams group (KIP-1071), until its standard input ends. */
public class Streams {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("application.id", arguments[1]);
        settings.put("group.protocol", "streams");
        settings.put("state.dir", arguments[4]);
        settings.put("default.key.serde", Serdes.ByteArray().getClass());
        settings.put("default.value.serde", Serdes.ByteArray().getClass());
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[2]).to(arguments[3]);
        try (KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            streams.start();
            System.in.read();
            streams.close(
                    CloseOptions.timeout(Duration.ofSeconds(20))
                            .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP));
        }
    }
}
