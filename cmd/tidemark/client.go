package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientFlags are the flags of every command that talks to a running broker.
type clientFlags struct{ bootstrap string }

func (c *clientFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&c.bootstrap, "bootstrap-server", "localhost:9092", "brokers to ask first, HOST:PORT[,HOST:PORT...]")
}

// open returns a client for the flags and opts; the caller closes it.
func (c *clientFlags) open(opts ...kgo.Opt) (*kgo.Client, error) {
	seeds := strings.Split(c.bootstrap, ",")
	// A leader that moves is looked for at once: the client's own default lets five
	// seconds pass between two questions.
	opts = append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID("tidemark-cli"), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--bootstrap-server %q: %w", c.bootstrap, err)}
	}
	return cl, nil
}

// admin returns an admin client and the function that closes it.
func (c *clientFlags) admin() (*kadm.Client, func(), error) {
	// Admin commands answer a person who waits: a broker that isn't there is
	// said after seconds, not after the client's default of retrying for long.
	cl, err := c.open(kgo.RequestRetries(2))
	if err != nil {
		return nil, nil, err
	}
	return kadm.NewClient(cl), cl.Close, nil
}
