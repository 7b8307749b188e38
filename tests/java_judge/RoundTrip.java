import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;

import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/** Reads lines of "api-key request|response version hex", parses each with Kafka's own classes, and prints it again. */
public class RoundTrip {
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(again(words[0], words[1], Short.parseShort(words[2]), words[3]));
        }
    }

    private static String again(String apiKey, String kind, short version, String hex) {
        ApiMessageType type = ApiMessageType.fromApiKey(Short.parseShort(apiKey));
        ApiMessage message = kind.equals("request") ? type.newRequest() : type.newResponse();
        ByteBuffer buffer = ByteBuffer.wrap(HexFormat.of().parseHex(hex));
        try {
            message.read(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                return "error: " + buffer.remaining() + " bytes remain";
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            byte[] written = new byte[message.size(cache, version)];
            message.write(new ByteBufferAccessor(ByteBuffer.wrap(written)), cache, version);
            return HexFormat.of().formatHex(written);
        } catch (RuntimeException exception) {
            return "error: " + exception;
        }
    }
}
