package broker

import (
	"github.com/tidemark/tidemark/internal/config"
	"github.com/tidemark/tidemark/partition/host"
	"github.com/tidemark/tidemark/protocol/compress"
	"github.com/tidemark/tidemark/protocol/record"
)

// rulesOf returns what a batch for the partition must obey. A nil partition has
// the defaults.
func (b *Broker) rulesOf(h *host.Hosted) record.Rules {
	t := b.defaultTopic
	if h != nil {
		if c := h.State().Config; c != nil {
			t = c
		}
	}
	rules := record.Rules{
		MaxBatchBytes:   t.MaxMessageBytes,
		Compacted:       t.CleanupPolicy.Compact,
		BeforeMaxMs:     t.BeforeMaxMs,
		AfterMaxMs:      t.AfterMaxMs,
		DecompressedMax: b.config.Own.DecompressedBatchBytesMax,
	}
	if t.MessageTimestampType == config.LogAppendTime {
		rules.TimestampType = record.LogAppendTime
	}
	rules.Codec, rules.Level, rules.KeepCodec = targetCodec(t)
	return rules
}

// targetCodec translates compression.type and its level.
func targetCodec(t *config.Topic) (codec compress.Codec, level int, keep bool) {
	switch t.CompressionType {
	case config.CompressionUncompressed:
		return compress.None, 0, false
	case config.CompressionGzip:
		return compress.Gzip, int(t.GzipLevel), false
	case config.CompressionSnappy:
		return compress.Snappy, 0, false
	case config.CompressionLZ4:
		return compress.LZ4, int(t.LZ4Level), false
	case config.CompressionZstd:
		return compress.Zstd, int(t.ZstdLevel), false
	}
	return compress.None, 0, true
}
