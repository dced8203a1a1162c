package lab;

import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.storage.Converter;

/**
 * A converter that asks a server over TCP for each record, as one asks a schema registry: when that is away it fails
 * as for a record that it cannot read, and only the cause of the cause tells them apart.
 */
public class RegistryConverter implements Converter {
    private int port;

    @Override
    public void configure(Map<String, ?> settings, boolean isKey) {
        port = Integer.parseInt(String.valueOf(settings.get("port")));
    }

    @Override
    public byte[] fromConnectData(String topic, Schema schema, Object value) {
        return value == null ? null : value.toString().getBytes(StandardCharsets.UTF_8);
    }

    @Override
    public SchemaAndValue toConnectData(String topic, byte[] value) {
        try {
            return new SchemaAndValue(Schema.OPTIONAL_STRING_SCHEMA, read(value));
        } catch (SerializationException exc) {
            throw new DataException("Failed to deserialize data for topic " + topic, exc);
        }
    }

    private String read(byte[] value) {
        try (Socket registry = new Socket("127.0.0.1", port)) {
            return value == null ? null : new String(value, StandardCharsets.UTF_8);
        } catch (IOException exc) {
            throw new SerializationException("Error retrieving the schema", exc);
        }
    }
}
