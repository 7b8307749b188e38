import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** Reads lines "Kind hex": prints the value that Kafka's deserializer makes of the bytes, and the bytes that its serializer makes of that. */
public class Serializers {
    public static void main(String[] args) throws Exception {
        Map<String, Serde<?>> kinds = new HashMap<>();
        kinds.put("String", Serdes.String());
        kinds.put("Short", Serdes.Short());
        kinds.put("Integer", Serdes.Integer());
        kinds.put("Long", Serdes.Long());
        kinds.put("Float", Serdes.Float());
        kinds.put("Double", Serdes.Double());
        kinds.put("Boolean", Serdes.Boolean());
        kinds.put("Uuid", Serdes.UUID());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(again(kinds.get(words[0]), HexFormat.of().parseHex(words[1])));
        }
    }

    private static <T> String again(Serde<T> serde, byte[] data) throws Exception {
        T value = serde.deserializer().deserialize("topic", data);
        byte[] text = String.valueOf(value).getBytes("UTF-8");
        return HexFormat.of().formatHex(text) + " " + HexFormat.of().formatHex(serde.serializer().serialize("topic", value));
    }
}
