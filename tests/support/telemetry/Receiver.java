package pykafka;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;
import org.apache.kafka.shaded.io.opentelemetry.proto.common.v1.KeyValue;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.HistogramDataPoint;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.Metric;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.NumberDataPoint;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ResourceMetrics;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.ScopeMetrics;

/** A broker's plugin that writes the metrics which clients push as one line of JSON a push, read by OpenTelemetry's classes. */
public class Receiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private Path file;
    private String broker;

    @Override
    public void configure(Map<String, ?> configs) {
        file = Path.of(String.valueOf(configs.get("pykafka.telemetry.file")));
        broker = String.valueOf(configs.get("node.id"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        String line;
        try {
            MetricsData data = MetricsData.parseFrom(payload.data());
            List<String> metrics = new ArrayList<>();
            for (ResourceMetrics resource : data.getResourceMetricsList()) {
                String labels = attributes(resource.getResource().getAttributesList());
                for (ScopeMetrics scope : resource.getScopeMetricsList()) {
                    for (Metric metric : scope.getMetricsList()) {
                        add(metrics, labels, metric);
                    }
                }
            }
            line = "{\"broker\": " + broker + ", \"client\": " + text(context.clientId())
                + ", \"instance\": " + text(uuid(payload)) + ", \"terminating\": " + payload.isTerminating()
                + ", \"content\": " + text(payload.contentType()) + ", \"metrics\": [" + String.join(", ", metrics) + "]}\n";
        } catch (Exception error) {
            line = "{\"error\": " + text(String.valueOf(error)) + "}\n";
        }
        synchronized (this) {
            try {
                Files.write(file, line.getBytes(StandardCharsets.UTF_8), StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            } catch (IOException error) {
                throw new RuntimeException(error);
            }
        }
    }

    private static void add(List<String> metrics, String labels, Metric metric) {
        String head = "{\"name\": " + text(metric.getName()) + ", \"unit\": " + text(metric.getUnit()) + ", \"labels\": " + labels;
        for (NumberDataPoint point : metric.getGauge().getDataPointsList()) {
            metrics.add(head + ", \"kind\": \"gauge\"" + number(point));
        }
        for (NumberDataPoint point : metric.getSum().getDataPointsList()) {
            metrics.add(head + ", \"kind\": \"sum\", \"monotonic\": " + metric.getSum().getIsMonotonic() + ", \"temporality\": "
                + metric.getSum().getAggregationTemporalityValue() + number(point));
        }
        for (HistogramDataPoint point : metric.getHistogram().getDataPointsList()) {
            metrics.add(head + ", \"kind\": \"histogram\", \"temporality\": " + metric.getHistogram().getAggregationTemporalityValue()
                + ", \"value\": " + point.getCount() + ", \"sum\": " + point.getSum() + ", \"counts\": " + point.getBucketCountsList()
                + ", \"bounds\": " + point.getExplicitBoundsList() + ", \"start\": " + point.getStartTimeUnixNano()
                + ", \"time\": " + point.getTimeUnixNano() + ", \"tags\": " + attributes(point.getAttributesList()) + "}");
        }
    }

    private static String number(NumberDataPoint point) {
        return ", \"value\": " + point.getAsDouble() + ", \"start\": " + point.getStartTimeUnixNano() + ", \"time\": "
            + point.getTimeUnixNano() + ", \"tags\": " + attributes(point.getAttributesList()) + "}";
    }

    private static String attributes(List<KeyValue> attributes) {
        List<String> fields = new ArrayList<>();
        for (KeyValue one : attributes) {
            fields.add(text(one.getKey()) + ": " + text(one.getValue().getStringValue()));
        }
        return "{" + String.join(", ", fields) + "}";
    }

    /** As RFC 4122 writes it; Kafka's own text is base64. */
    private static String uuid(ClientTelemetryPayload payload) {
        return new java.util.UUID(
            payload.clientInstanceId().getMostSignificantBits(), payload.clientInstanceId().getLeastSignificantBits()).toString();
    }

    private static String text(String value) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : String.valueOf(value).toCharArray()) {
            if (each == '"' || each == '\\' || each < ' ' || each > '~') {
                quoted.append(String.format("\\u%04x", (int) each));
            } else {
                quoted.append(each);
            }
        }
        return quoted.append('"').toString();
    }

    @Override
    public void init(List<KafkaMetric> metrics) { }

    @Override
    public void metricChange(KafkaMetric metric) { }

    @Override
    public void metricRemoval(KafkaMetric metric) { }

    @Override
    public void close() { }
}
