import java.time.Duration;
import java.util.Map;

import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/**
 * Where a group would start at the target, by MirrorMaker's own client library:
 *
 *   Landing BOOTSTRAP SOURCE_ALIAS GROUP     prints `topic partition offset` lines
 *
 * Run from its source.
 */
public final class Landing {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> target = Map.of("bootstrap.servers", arguments[0]);
        RemoteClusterUtils
            .translateOffsets(target, arguments[1], arguments[2], Duration.ofSeconds(30))
            .forEach((at, offset) ->
                System.out.println(at.topic() + " " + at.partition() + " " + offset.offset()));
    }
}
