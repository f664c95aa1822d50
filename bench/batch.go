package bench

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchOverhead is the header of a v2 record batch.
const batchOverhead = 61

// batchOf returns an uncompressed batch of exactly size bytes as near as its
// records allow, holding records of recordBytes random bytes each. Random
// bytes, since no broker should gain by compressing them.
func batchOf(size, recordBytes int, rng *rand.Rand) (batch []byte, records int) {
	value := make([]byte, recordBytes)
	var body []byte
	for {
		for i := range value {
			value[i] = byte(rng.Uint32())
		}
		r := encodeRecord(int32(records), value)
		if records > 0 && batchOverhead+len(body)+len(r) > size {
			break
		}
		body = append(body, r...)
		records++
		if batchOverhead+len(body) >= size {
			break
		}
	}
	return frameBatch(body, records), records
}

// encodeRecord builds one record by hand: bench keeps clear of the broker's
// own encoder, so that a shared mistake cannot hide.
func encodeRecord(delta int32, value []byte) []byte {
	inner := []byte{0}                               // attributes
	inner = binary.AppendVarint(inner, 0)            // timestamp delta
	inner = binary.AppendVarint(inner, int64(delta)) // offset delta
	inner = binary.AppendVarint(inner, -1)           // null key
	inner = binary.AppendVarint(inner, int64(len(value)))
	inner = append(inner, value...)
	inner = binary.AppendVarint(inner, 0) // headers
	return append(binary.AppendVarint(nil, int64(len(inner))), inner...)
}

func frameBatch(body []byte, records int) []byte {
	b := make([]byte, batchOverhead, batchOverhead+len(body))
	binary.BigEndian.PutUint32(b[8:], uint32(batchOverhead-12+len(body)))
	binary.BigEndian.PutUint32(b[12:], 0xffffffff) // leader epoch −1
	b[16] = 2                                      // magic
	binary.BigEndian.PutUint32(b[23:], uint32(records-1))
	const timestamp = 1_700_000_000_000
	binary.BigEndian.PutUint64(b[27:], timestamp)
	binary.BigEndian.PutUint64(b[35:], timestamp)
	for i := 43; i < 57; i++ { // producer id, epoch, sequence: −1
		b[i] = 0xff
	}
	binary.BigEndian.PutUint32(b[57:], uint32(records))
	b = append(b, body...)
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], castagnoli))
	return b
}

// produceRequest asks for batch to be appended to one partition.
func produceRequest(topic string, partition int32, acks int16, batch []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version = 9
	r.Acks = acks
	r.TimeoutMillis = 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition = partition
	p.Records = batch
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// fetchRequest asks for data of one topic's partitions, each from its offset.
func fetchRequest(topic string, offsets []int64, partitionMax, waitMillis int32) *kmsg.FetchRequest {
	r := kmsg.NewPtrFetchRequest()
	r.Version = 12
	r.ReplicaID = -1
	r.MaxWaitMillis = waitMillis
	r.MinBytes = 1
	r.MaxBytes = 55 << 20
	r.SessionID = 0
	r.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for i, o := range offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = int32(i)
		p.CurrentLeaderEpoch = -1
		p.LastFetchedEpoch = -1
		p.LogStartOffset = -1
		p.FetchOffset = o
		p.PartitionMaxBytes = partitionMax
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}
