import com.sun.tools.attach.VirtualMachine;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.TreeMap;
import javax.management.InstanceNotFoundException;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/**
 * What MirrorMaker says of its own latency over JMX: `java MirrorLatency.java PID`.
 *
 * For each line that comes in, one goes out: `topic-partition=milliseconds` of every partition that has the
 * metric, separated by spaces. Ends with its input. The agent that it asks listens on this machine only, and for
 * this user.
 */
public class MirrorLatency {
    private static final String METRIC = "replication-latency-ms";
    private static final String BEANS = "kafka.connect.mirror:type=MirrorSourceConnector,*";

    public static void main(String[] arguments) throws Exception {
        VirtualMachine worker = VirtualMachine.attach(arguments[0]);
        JMXServiceURL address = new JMXServiceURL(worker.startLocalManagementAgent());
        worker.detach();
        try (JMXConnector connector = JMXConnectorFactory.connect(address)) {
            MBeanServerConnection beans = connector.getMBeanServerConnection();
            BufferedReader questions = new BufferedReader(new InputStreamReader(System.in));
            System.out.println("ready");
            while (questions.readLine() != null) {
                System.out.println(latencies(beans));
            }
        }
    }

    private static String latencies(MBeanServerConnection beans) throws Exception {
        TreeMap<String, String> found = new TreeMap<>();
        for (ObjectName name : beans.queryNames(new ObjectName(BEANS), null)) {
            try {
                String at = name.getKeyProperty("topic") + "-" + name.getKeyProperty("partition");
                found.put(at, at + "=" + beans.getAttribute(name, METRIC));
            } catch (InstanceNotFoundException gone) {
                // Its task ended since it was listed.
            }
        }
        return String.join(" ", found.values());
    }
}
