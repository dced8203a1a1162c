package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.OptionalLong;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks Kafka's own OffsetSyncStore. One command per line of standard input:
 *
 *   start MUST_READ_TO_END     a new store; the syncs up to `end` are what its topic holds at start
 *   end
 *   sync UPSTREAM DOWNSTREAM   one more record
 *   translate UPSTREAM         prints the downstream offset, or `none`
 *   array                      prints upstream:downstream of all places, or `none`
 *
 * In this package because the class is visible nowhere else. Run with -ea: it asserts invariants.
 */
public final class Translations {
    private static final TopicPartition PARTITION = new TopicPartition("topic", 0);

    private final BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    private final BufferedWriter out =
        new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.US_ASCII));
    private Store store;

    public static void main(String[] arguments) throws IOException {
        Translations translations = new Translations();
        String line = translations.in.readLine();
        while (line != null) {
            translations.obey(line.split(" "));
            line = translations.in.readLine();
        }
        translations.out.flush();
    }

    private void obey(String[] words) throws IOException {
        switch (words[0]) {
            case "start" -> {
                store = new Store();
                store.start(Boolean.parseBoolean(words[1]));
            }
            case "sync" -> store.read(Long.parseLong(words[1]), Long.parseLong(words[2]));
            case "translate" -> {
                OptionalLong found =
                    store.translateDownstream("group", PARTITION, Long.parseLong(words[1]));
                say(found.isPresent() ? Long.toString(found.getAsLong()) : "none");
            }
            case "array" -> say(store.array());
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    private void say(String text) throws IOException {
        out.write(text);
        out.write('\n');
    }

    private final class Store extends OffsetSyncStore {
        private boolean empty = true;

        void read(long upstream, long downstream) {
            OffsetSync sync = new OffsetSync(PARTITION, upstream, downstream);
            handleRecord(new ConsumerRecord<>("syncs", 0, 0L, sync.recordKey(), sync.recordValue()));
            empty = false;
        }

        @Override
        void backingStoreStart() {
            try {
                String line = in.readLine();
                while (!line.equals("end")) {
                    obey(line.split(" "));
                    line = in.readLine();
                }
            } catch (IOException exc) {
                throw new UncheckedIOException(exc);
            }
        }

        String array() {
            if (empty) {
                return "none";
            }
            StringBuilder text = new StringBuilder();
            for (int place = 0; place < SYNCS_PER_PARTITION; place++) {
                OffsetSync sync = syncFor(PARTITION, place);
                text.append(place == 0 ? "" : " ");
                text.append(sync.upstreamOffset()).append(':').append(sync.downstreamOffset());
            }
            return text.toString();
        }
    }
}
