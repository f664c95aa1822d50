/*
 * rdload: a fixed amount of produce or consume work through librdkafka, for the
 * client rows of the benchmarks.
 *
 *   cc -O2 -o rdload rdload.c -lrdkafka
 *   rdload produce|consume BROKERS TOPIC RECORDS RECORD_BYTES
 *
 * Producing is idempotent with acks=all and no compression; consuming reads
 * partition 0 from its beginning. Exits with 0 once every record was
 * acknowledged or read.
 */
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long done, failed;

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque) {
    (void)rk;
    (void)opaque;
    if (m->err) {
        if (!failed)
            fprintf(stderr, "rdload: %s\n", rd_kafka_err2str(m->err));
        failed++;
    } else {
        done++;
    }
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char err[256];
    if (rd_kafka_conf_set(conf, key, value, err, sizeof err) != RD_KAFKA_CONF_OK) {
        fprintf(stderr, "rdload: %s=%s: %s\n", key, value, err);
        exit(2);
    }
}

static rd_kafka_t *open_client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char err[256];
    rd_kafka_t *rk = rd_kafka_new(type, conf, err, sizeof err);
    if (!rk) {
        fprintf(stderr, "rdload: %s\n", err);
        exit(1);
    }
    return rk;
}

static void produce(rd_kafka_conf_t *conf, const char *topic, long records, size_t size) {
    set(conf, "enable.idempotence", "true");
    set(conf, "queue.buffering.max.messages", "1000000");
    set(conf, "queue.buffering.max.kbytes", "1048576");
    set(conf, "batch.size", "1000000");
    set(conf, "linger.ms", "1");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = open_client(RD_KAFKA_PRODUCER, conf);
    char *value = malloc(size);
    unsigned x = 12345;
    for (size_t i = 0; i < size; i++) {
        x = x * 1664525u + 1013904223u;
        value[i] = (char)(x >> 24);
    }
    for (long i = 0; i < records; i++) {
        rd_kafka_resp_err_t e;
        while ((e = rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(0), RD_KAFKA_V_VALUE(value, size),
                                      RD_KAFKA_V_END)) == RD_KAFKA_RESP_ERR__QUEUE_FULL)
            rd_kafka_poll(rk, 10);
        if (e) {
            fprintf(stderr, "rdload: produce: %s\n", rd_kafka_err2str(e));
            exit(1);
        }
        if (i % 1000 == 0)
            rd_kafka_poll(rk, 0);
    }
    rd_kafka_flush(rk, 120000);
    rd_kafka_destroy(rk);
    free(value);
}

static void consume(rd_kafka_conf_t *conf, const char *topic, long records) {
    rd_kafka_t *rk = open_client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_topic_t *t = rd_kafka_topic_new(rk, topic, NULL);
    if (!t || rd_kafka_consume_start(t, 0, RD_KAFKA_OFFSET_BEGINNING) != 0) {
        fprintf(stderr, "rdload: consume: %s\n", rd_kafka_err2str(rd_kafka_last_error()));
        exit(1);
    }
    static rd_kafka_message_t *ms[10000];
    for (int idle = 0; done < records && idle < 60;) {
        ssize_t n = rd_kafka_consume_batch(t, 0, 100, ms, 10000);
        idle = n > 0 ? 0 : idle + 1;
        for (ssize_t i = 0; i < n; i++) {
            if (!ms[i]->err)
                done++;
            rd_kafka_message_destroy(ms[i]);
        }
    }
    rd_kafka_consume_stop(t, 0);
    rd_kafka_topic_destroy(t);
    rd_kafka_destroy(rk);
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: rdload produce|consume BROKERS TOPIC RECORDS RECORD_BYTES\n");
        return 2;
    }
    long records = atol(argv[4]);
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argv[2]);
    if (strcmp(argv[1], "produce") == 0)
        produce(conf, argv[3], records, (size_t)atol(argv[5]));
    else
        consume(conf, argv[3], records);
    if (failed || done < records) {
        fprintf(stderr, "rdload: %ld of %ld records done, %ld failed\n", done, records, failed);
        return 1;
    }
    return 0;
}
