import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads lines "assignor topic=rack,rack;topic=... member=hex ...": for each partition of a topic the rack of its replica, and each
 * member's metadata. Prints "member=topic-0,topic-1 ..." as Kafka's assignor divides them.
 */
public class Assignors {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(divide(line.split(" ")));
        }
    }

    private static ConsumerPartitionAssignor named(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static String divide(String[] words) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : words[1].split(";")) {
            String[] pair = topic.split("=", -1);
            if (pair[1].isEmpty()) continue;
            String[] racks = pair[1].split(",");
            for (int id = 0; id < racks.length; id++) {
                String rack = racks[id];
                Node node = nodes.computeIfAbsent(rack, r -> new Node(nodes.size(), "h" + r, 1, r.equals("-") ? null : r));
                partitions.add(new PartitionInfo(pair[0], id, node, new Node[] {node}, new Node[] {node}));
            }
        }
        Cluster cluster = new Cluster("c", nodes.values(), partitions, Collections.emptySet(), Collections.emptySet());
        Map<String, Subscription> members = new HashMap<>();
        for (int at = 2; at < words.length; at++) {
            String[] pair = words[at].split("=");
            members.put(pair[0], ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(HexFormat.of().parseHex(pair[1]))));
        }
        Map<String, ConsumerPartitionAssignor.Assignment> shares =
            named(words[0]).assign(cluster, new GroupSubscription(members)).groupAssignment();
        StringBuilder text = new StringBuilder();
        for (Map.Entry<String, ConsumerPartitionAssignor.Assignment> share : new TreeMap<>(shares).entrySet()) {
            List<String> keys = new ArrayList<>();
            for (TopicPartition key : share.getValue().partitions()) keys.add(key.toString());
            text.append(text.length() == 0 ? "" : " ").append(share.getKey()).append("=").append(String.join(",", keys));
        }
        return text.toString();
    }
}
