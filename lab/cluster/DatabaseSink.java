package lab;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.sink.SinkTask;

/**
 * A sink whose put() speaks to a server over TCP, one line per record, as a database's would: it has written when
 * put() returns, and it fails in put() when the server is away.
 */
public class DatabaseSink extends SinkConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Writer.class;
    }

    @Override
    public List<Map<String, String>> taskConfigs(int most) {
        return Collections.nCopies(1, settings);
    }

    @Override
    public void stop() {
        // Nothing is open between two batches.
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef().define("port", ConfigDef.Type.INT, ConfigDef.Importance.HIGH, "On loopback.");
    }

    @Override
    public String version() {
        return "1";
    }

    /** The task. */
    public static class Writer extends SinkTask {
        private int port;

        @Override
        public void start(Map<String, String> settings) {
            port = Integer.parseInt(settings.get("port"));
        }

        @Override
        public void put(Collection<SinkRecord> records) {
            if (records.isEmpty()) {
                return;
            }
            try (Socket database = new Socket("127.0.0.1", port)) {
                BufferedReader answers = new BufferedReader(
                        new InputStreamReader(database.getInputStream(), StandardCharsets.UTF_8));
                for (SinkRecord record : records) {
                    database.getOutputStream().write((record.value() + "\n").getBytes(StandardCharsets.UTF_8));
                    if (answers.readLine() == null) {
                        throw new IOException("The connection was closed by the server");
                    }
                }
            } catch (IOException exc) {
                throw new ConnectException("Cannot write a batch", exc);
            }
        }

        @Override
        public void stop() {
            // Nothing is open between two batches.
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
