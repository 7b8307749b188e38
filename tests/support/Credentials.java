import java.io.FileReader;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ExpireDelegationTokenOptions;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/** What Kafka's own client does with credentials: java Credentials.java FILE.properties (topics | token | expire HMAC). */
public class Credentials {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (FileReader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        try (Admin admin = Admin.create(properties)) {
            switch (arguments[1]) {
                case "topics":
                    System.out.println("topics " + admin.listTopics().names().get().size());
                    break;
                case "token":
                    DelegationToken token = admin.createDelegationToken().delegationToken().get();
                    System.out.println("token " + token.tokenInfo().tokenId() + " " + token.hmacAsBase64String());
                    break;
                case "expire":
                    admin.expireDelegationToken(
                        java.util.Base64.getDecoder().decode(arguments[2]),
                        new ExpireDelegationTokenOptions().expiryTimePeriodMs(-1)).expiryTimestamp().get();
                    System.out.println("expired");
                    break;
                default:
                    throw new IllegalArgumentException(arguments[1]);
            }
        }
    }
}
