package lab;

import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A source that counts to "limit", one record each, and goes on from its offset. Its partition has the fields that
 * "fields" names, in a map of the kind that "map" names: Connect writes and looks up the bytes that this map makes. A
 * field called "partition" is the number 0, as MirrorMaker's is.
 * With "text" its offset is a text, which only it can read. With "refuses" it refuses to have its offsets altered: in
 * these words, or as one that does not support it ("unsupported") or that fails at it ("broken").
 */
public class MapSource extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Counter.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return Collections.nCopies(1, settings);
    }

    @Override
    public void stop() {
        // Nothing is open.
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define("topic", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Where to.")
                .define("limit", ConfigDef.Type.LONG, ConfigDef.Importance.HIGH, "The last number.")
                .define("map", ConfigDef.Type.STRING, "hash", ConfigDef.Importance.LOW, "hash, linked, tree or of.")
                .define("fields", ConfigDef.Type.LIST, "name,path", ConfigDef.Importance.LOW, "Names, in order.")
                .define("field", ConfigDef.Type.STRING, "position", ConfigDef.Importance.LOW, "Of the offset.")
                .define("text", ConfigDef.Type.BOOLEAN, false, ConfigDef.Importance.LOW, "The offset is a text.")
                .define("refuses", ConfigDef.Type.STRING, "", ConfigDef.Importance.LOW, "To have offsets altered.");
    }

    @Override
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        String words = config.getOrDefault("refuses", "");
        switch (words) {
            case "":
                return true;
            case "unsupported":
                throw new UnsupportedOperationException();
            case "broken":
                throw new IllegalStateException("no word of this reaches a client");
            default:
                throw new ConnectException(words);
        }
    }

    @Override
    public String version() {
        return "1";
    }

    /** The task. */
    public static class Counter extends SourceTask {
        private Map<String, ?> partition;
        private String topic;
        private String field;
        private boolean text;
        private long limit;
        private long last;

        @Override
        public void start(Map<String, String> given) {
            topic = given.get("topic");
            field = given.getOrDefault("field", "position");
            text = Boolean.parseBoolean(given.get("text"));
            limit = Long.parseLong(given.get("limit"));
            String[] fields = given.getOrDefault("fields", "name,path").split(",");
            partition = partition(given.getOrDefault("map", "hash"), fields);
            Map<String, Object> found = context.offsetStorageReader().offset(partition);
            last = found == null ? 0 : Long.parseLong(found.get(field).toString());
        }

        private static Map<String, ?> partition(String kind, String[] fields) {
            if (kind.equals("of")) {
                return fields.length == 1
                        ? Map.of(fields[0], "of " + fields[0])
                        : Map.of(fields[0], "of " + fields[0], fields[1], "of " + fields[1]);
            }
            Map<String, Object> made = switch (kind) {
                case "linked" -> new LinkedHashMap<>();
                case "tree" -> new TreeMap<>();
                default -> new HashMap<>();
            };
            for (String name : fields) {
                made.put(name, name.equals("partition") ? (Object) 0 : "of " + name);
            }
            return made;
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            if (last >= limit) {
                Thread.sleep(100);
                return null;
            }
            last++;
            Map<String, ?> offset = Map.of(field, text ? (Object) Long.toString(last) : (Object) last);
            return List.of(new SourceRecord(partition, offset, topic, Schema.STRING_SCHEMA, "number " + last));
        }

        @Override
        public void stop() {
            // Nothing is open.
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
