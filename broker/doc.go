// Package broker builds a node out of the parts and answers Kafka's APIs. Each
// API has a file handle_NN_name.go, NN being its key, that begins with the
// versions served, the behaviour and the errors. Handlers run on the goroutine
// of the connection that the request came in on and never block: what must wait
// registers with a loop and is answered from there.
//
// A Broker can be embedded in another program's test:
//
//	b, err := broker.New(broker.Config{FS: broker.InMemory()})
//	err = b.Start(ctx)   // b.Addr() is what clients connect to
//	err = b.Stop(ctx)
package broker
