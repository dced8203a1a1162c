package offsetwatch.lab;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

import org.apache.kafka.connect.storage.Converter;

/**
 * Asks Connect's own converters. One question per line of standard input: the class of a converter,
 * `true` or `false` for schemas.enable, and the bytes in base64, `-` for null. Answers `fine`, or
 * `fails` where the converter throws.
 */
public final class Conversions {
    private static final Base64.Decoder BASE64 = Base64.getDecoder();
    private static final Map<String, Converter> MADE = new LinkedHashMap<>();

    private Conversions() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        BufferedWriter out =
            new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.US_ASCII));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.write(answer(line.split(" ", -1)));
            out.write('\n');
        }
        out.flush();
    }

    private static String answer(String[] words) throws Exception {
        Converter converter = converter(words[0], words[1]);
        byte[] raw = words[2].equals("-") ? null : BASE64.decode(words[2]);
        try {
            converter.toConnectData("topic", raw);
            return "fine";
        } catch (Exception exception) {
            return "fails";
        }
    }

    private static Converter converter(String name, String schemas) throws Exception {
        Converter known = MADE.get(name + schemas);
        if (known == null) {
            known = (Converter) Class.forName(name).getDeclaredConstructor().newInstance();
            Map<String, Object> settings = new HashMap<>();
            settings.put("schemas.enable", schemas);
            known.configure(settings, false);
            MADE.put(name + schemas, known);
        }
        return known;
    }
}
