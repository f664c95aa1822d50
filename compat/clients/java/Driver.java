import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Drives the Java client: one JSON object a line in, one a line out. */
public class Driver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, KafkaConsumer<byte[], byte[]>> MEMBERS = new HashMap<>();
    static String bootstrap;
    static Admin admin;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        PrintStream out = System.out;
        System.setOut(System.err); // what the client logs is no answer
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            JsonNode r = JSON.readTree(line);
            ObjectNode a = JSON.createObjectNode();
            try {
                answer(r, a);
            } catch (Exception e) {
                Throwable cause = e instanceof ExecutionException && e.getCause() != null ? e.getCause() : e;
                cause.printStackTrace();
                a.put("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
            }
            out.println(JSON.writeValueAsString(a));
            out.flush();
        }
        System.exit(0);
    }

    static void answer(JsonNode r, ObjectNode a) throws Exception {
        String topic = r.path("topic").asText();
        TopicPartition tp = new TopicPartition(topic, r.path("partition").asInt());
        switch (r.get("op").asText()) {
            case "hello" -> a.put("client", "kafka-clients").put("version", AppInfoParser.getVersion());
            case "produce" -> produce(r, a);
            case "consume" -> consume(r, a, tp);
            case "offsets" -> {
                try (KafkaConsumer<byte[], byte[]> c = consumer(new Properties())) {
                    a.put("start", c.beginningOffsets(List.of(tp)).get(tp)).put("end", c.endOffsets(List.of(tp)).get(tp));
                    OffsetAndTimestamp at = c.offsetsForTimes(Map.of(tp, r.path("t").asLong())).get(tp);
                    a.put("at", at == null ? -1 : at.offset());
                }
            }
            case "create" -> {
                Map<String, String> configs = new HashMap<>();
                r.path("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
                NewTopic t = new NewTopic(topic, r.get("partitions").asInt(), (short) r.get("replication").asInt());
                admin().createTopics(List.of(t.configs(configs))).all().get();
            }
            case "delete" -> admin().deleteTopics(List.of(topic)).all().get();
            case "grow" -> admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(r.get("partitions").asInt()))).all().get();
            case "alter" -> {
                Collection<AlterConfigOp> ops = new ArrayList<>();
                r.get("configs").fields().forEachRemaining(e ->
                    ops.add(new AlterConfigOp(new ConfigEntry(e.getKey(), e.getValue().asText()), AlterConfigOp.OpType.SET)));
                admin().incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic), ops)).all().get();
            }
            case "configs" -> {
                ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
                ObjectNode out = a.putObject("configs");
                admin().describeConfigs(List.of(resource)).all().get().get(resource).entries().forEach(e -> out.put(e.name(), e.value()));
            }
            case "topics" -> {
                ObjectNode out = a.putObject("topics");
                admin().describeTopics(admin().listTopics().names().get()).allTopicNames().get()
                    .forEach((name, t) -> out.put(name, t.partitions().size()));
            }
            case "join" -> join(r);
            case "poll" -> poll(r, a);
            case "commit" -> MEMBERS.get(r.get("member").asText()).commitSync();
            case "committed" -> {
                OffsetAndMetadata o = admin().listConsumerGroupOffsets(r.get("group").asText()).partitionsToOffsetAndMetadata().get().get(tp);
                a.put("offset", o == null ? -1 : o.offset());
            }
            case "leave" -> MEMBERS.remove(r.get("member").asText()).close();
            default -> throw new IllegalArgumentException("no such operation");
        }
    }

    static Admin admin() {
        if (admin == null) {
            Properties p = new Properties();
            p.put("bootstrap.servers", bootstrap);
            admin = Admin.create(p);
        }
        return admin;
    }

    static KafkaConsumer<byte[], byte[]> consumer(Properties p) {
        p.put("bootstrap.servers", bootstrap);
        p.put("enable.auto.commit", "false");
        p.put("allow.auto.create.topics", "false");
        p.put("fetch.max.wait.ms", "200");
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void produce(JsonNode r, ObjectNode a) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("compression.type", r.path("codec").asText("none"));
        p.put("enable.idempotence", String.valueOf(r.path("idempotent").asBoolean()));
        p.put("acks", "all");
        p.put("linger.ms", "20");
        p.put("batch.size", "1048576");
        p.put("max.request.size", "20000000");
        p.put("delivery.timeout.ms", "15000");
        p.put("request.timeout.ms", "10000");
        ArrayNode acks = a.putArray("acks");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode x : r.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode h : x.path("h")) {
                    headers.add(new RecordHeader(h.get(0).asText(), dec(h.get(1))));
                }
                Long t = x.path("t").asLong() == 0 ? null : x.get("t").asLong();
                sent.add(producer.send(new ProducerRecord<>(r.get("topic").asText(), x.get("p").asInt(), t, dec(x.get("k")), dec(x.get("v")), headers)));
            }
            producer.flush();
            for (Future<RecordMetadata> f : sent) {
                try {
                    acks.addObject().put("p", f.get().partition()).put("o", f.get().offset());
                } catch (ExecutionException e) {
                    acks.addObject().put("error", e.getCause().toString());
                }
            }
        }
    }

    static void consume(JsonNode r, ObjectNode a, TopicPartition tp) {
        Properties p = new Properties();
        String reset = r.path("reset").asText("error");
        p.put("auto.offset.reset", reset.equals("error") ? "none" : reset);
        try (KafkaConsumer<byte[], byte[]> c = consumer(p)) {
            c.assign(List.of(tp));
            String from = r.get("from").asText();
            if (from.equals("earliest")) {
                c.seekToBeginning(List.of(tp));
            } else if (from.equals("latest")) {
                c.seekToEnd(List.of(tp));
            } else if (from.startsWith("ts:")) {
                c.seek(tp, c.offsetsForTimes(Map.of(tp, Long.parseLong(from.substring(3)))).get(tp).offset());
            } else {
                c.seek(tp, Long.parseLong(from));
            }
            collect(c, a, r.get("count").asInt(), r.path("timeout").asLong(15000));
        }
    }

    static void collect(KafkaConsumer<byte[], byte[]> c, ObjectNode a, int count, long millis) {
        ArrayNode out = a.putArray("records");
        long end = System.currentTimeMillis() + millis;
        while (out.size() < count && System.currentTimeMillis() < end) {
            Map<TopicPartition, Long> rest = new HashMap<>();
            for (ConsumerRecord<byte[], byte[]> m : c.poll(Duration.ofMillis(Math.max(1, Math.min(200, end - System.currentTimeMillis()))))) {
                if (out.size() == count) {
                    rest.putIfAbsent(new TopicPartition(m.topic(), m.partition()), m.offset());
                    continue;
                }
                ObjectNode x = out.addObject().put("p", m.partition()).put("o", m.offset()).put("t", m.timestamp());
                x.put("k", enc(m.key())).put("v", enc(m.value()));
                ArrayNode headers = x.putArray("h");
                for (Header h : m.headers()) {
                    headers.addArray().add(h.key()).add(enc(h.value()));
                }
            }
            rest.forEach(c::seek); // what was too much is for the next time
        }
    }

    static void join(JsonNode r) {
        Properties p = new Properties();
        p.put("group.id", r.get("group").asText());
        p.put("auto.offset.reset", "earliest");
        p.put("metadata.max.age.ms", "1000");
        String protocol = r.path("protocol").asText("classic");
        p.put("group.protocol", protocol);
        if (r.has("instance")) {
            p.put("group.instance.id", r.get("instance").asText());
        }
        if (protocol.equals("classic")) {
            p.put("session.timeout.ms", "4000");
            p.put("heartbeat.interval.ms", "500");
            p.put("partition.assignment.strategy",
                r.path("strategy").asText("").isEmpty() ? RangeAssignor.class.getName() : CooperativeStickyAssignor.class.getName());
        }
        KafkaConsumer<byte[], byte[]> c = consumer(p);
        if (r.has("pattern")) {
            c.subscribe(Pattern.compile(r.get("pattern").asText()));
        } else {
            c.subscribe(List.of(r.get("topic").asText()));
        }
        MEMBERS.put(r.get("member").asText(), c);
    }

    static void poll(JsonNode r, ObjectNode a) {
        KafkaConsumer<byte[], byte[]> c = MEMBERS.get(r.get("member").asText());
        collect(c, a, r.get("count").asInt(), r.get("timeout").asLong());
        ArrayNode owns = a.putArray("assignment");
        c.assignment().stream().map(t -> List.of(t.topic(), t.partition())).sorted((x, y) -> x.toString().compareTo(y.toString()))
            .forEach(t -> owns.addArray().add((String) t.get(0)).add((int) t.get(1)));
    }

    static byte[] dec(JsonNode n) {
        return n == null || n.isNull() ? null : Base64.getDecoder().decode(n.asText());
    }

    static String enc(byte[] b) {
        return b == null ? null : Base64.getEncoder().encodeToString(b);
    }
}
