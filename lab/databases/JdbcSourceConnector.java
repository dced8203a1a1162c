package lab;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * A source with the settings, partitions and offsets of the JDBC source connectors in mode incrementing: it reads one
 * table of PostgreSQL in the order of a column, and goes on behind the value in its offset. Its record is the text of
 * column note.
 */
public class JdbcSourceConnector extends SourceConnector {
    private Map<String, String> settings;

    @Override
    public void start(Map<String, String> given) {
        settings = given;
    }

    @Override
    public Class<? extends Task> taskClass() {
        return Reader.class;
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
    public boolean alterOffsets(Map<String, String> config, Map<Map<String, ?>, Map<String, ?>> offsets) {
        return true;
    }

    @Override
    public ConfigDef config() {
        return new ConfigDef()
                .define("connection.url", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Of PostgreSQL.")
                .define("connection.user", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Who reads.")
                .define("connection.password", ConfigDef.Type.PASSWORD, ConfigDef.Importance.HIGH, "The user's.")
                .define("mode", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "incrementing.")
                .define("incrementing.column.name", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "The column.")
                .define("table.whitelist", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "schema.table, one.")
                .define("topic.prefix", ConfigDef.Type.STRING, ConfigDef.Importance.HIGH, "Before the table's name.");
    }

    @Override
    public String version() {
        return "1";
    }

    /** The task. */
    public static class Reader extends SourceTask {
        private static final int ROWS = 100;
        private static final long PAUSE_MS = 100;

        private final Map<String, String> partition = new HashMap<>();
        private Map<String, String> settings;
        private Connection connection;
        private String statement;
        private String topic;
        private long last = -1;

        @Override
        public void start(Map<String, String> given) {
            settings = given;
            String table = given.get("table.whitelist");
            partition.put("protocol", "1");
            partition.put("table", table);
            topic = given.get("topic.prefix") + table.substring(table.indexOf('.') + 1);
            String column = given.get("incrementing.column.name");
            statement = "SELECT " + column + ", note FROM " + table + " WHERE " + column + " > ? ORDER BY " + column
                    + " ASC LIMIT " + ROWS;
            Map<String, Object> found = context.offsetStorageReader().offset(partition);
            if (found != null) {
                last = (Long) found.get("incrementing");
            }
            try {
                Class.forName("org.postgresql.Driver");
            } catch (ClassNotFoundException exc) {
                throw new ConnectException("No driver", exc);
            }
        }

        @Override
        public List<SourceRecord> poll() throws InterruptedException {
            List<SourceRecord> records = new ArrayList<>();
            try (PreparedStatement query = connection().prepareStatement(statement)) {
                query.setLong(1, last);
                try (ResultSet rows = query.executeQuery()) {
                    while (rows.next()) {
                        last = rows.getLong(1);
                        Map<String, Long> offset = Collections.singletonMap("incrementing", last);
                        records.add(
                                new SourceRecord(partition, offset, topic, Schema.STRING_SCHEMA, rows.getString(2)));
                    }
                }
            } catch (SQLException exc) {
                throw new ConnectException("Cannot read the table", exc);
            }
            if (records.isEmpty()) {
                Thread.sleep(PAUSE_MS);
                return null;
            }
            return records;
        }

        private Connection connection() throws SQLException {
            if (connection == null) {
                connection = DriverManager.getConnection(settings.get("connection.url"),
                        settings.get("connection.user"), settings.get("connection.password"));
            }
            return connection;
        }

        @Override
        public void stop() {
            try {
                if (connection != null) {
                    connection.close();
                }
            } catch (SQLException exc) {
                throw new ConnectException("Cannot close the connection", exc);
            }
        }

        @Override
        public String version() {
            return "1";
        }
    }
}
