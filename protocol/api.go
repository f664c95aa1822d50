package protocol

// Class groups APIs by what they need from the broker.
type Class uint8

// The classes of APIs.
const (
	ClassData       Class = iota + 1 // moves records
	ClassMetadata                    // reads what the cluster agreed on
	ClassAdmin                       // changes what the cluster agreed on; decided by the active controller
	ClassGroup                       // decided by a group coordinator
	ClassTxn                         // decided by a transaction coordinator
	ClassController                  // between brokers and controllers
)

// String returns the word docs/APIS.md uses.
func (c Class) String() string {
	switch c {
	case ClassData:
		return "data"
	case ClassMetadata:
		return "metadata"
	case ClassAdmin:
		return "admin"
	case ClassGroup:
		return "group"
	case ClassTxn:
		return "transaction"
	case ClassController:
		return "controller"
	}
	return "unknown"
}

// Scope says on which listeners an API is served and advertised.
type Scope uint8

// The listeners an API may be served on; values add up.
const (
	OnBroker     Scope = 1 << iota // listeners for clients and other brokers
	OnController                   // the controller listener
)

// FirstPrivateKey is where the keys of Tidemark's own APIs begin. They are
// served on the controller listener only, never advertised, and their bodies
// are not kmsg's: a handler gets the bytes.
const FirstPrivateKey int16 = 20000

// API is one row of the table: an API and what we serve of it.
type API struct {
	Key  int16
	Name string // Kafka's name

	// Min and Max are the versions that ApiVersions advertises.
	Min, Max int16

	// ServedMin is the lowest version that is answered; above Min only for
	// Produce, whose old versions are advertised for the sake of librdkafka's
	// feature test and refused, as Apache Kafka 4 does (KAFKA-18659).
	ServedMin int16

	// Flexible is the first version with compact types and tagged fields in
	// header and body (KIP-482); NeverFlexible if there is none.
	Flexible int16

	Class Class
	Scope Scope
	Notes string // for docs/APIS.md: what is special, what is not supported
}

// NeverFlexible is API.Flexible of an API without flexible versions.
const NeverFlexible int16 = 1<<15 - 1

// Served reports whether requests of this version are answered.
func (a API) Served(version int16) bool { return version >= a.ServedMin && version <= a.Max }

// telemetry reports whether the API is one that clients push their metrics with.
func (a *API) telemetry() bool { return a.Key == KeyGetTelemetrySubs || a.Key == KeyPushTelemetry }

// On reports whether the API is served on listeners of this scope.
func (a API) On(s Scope) bool { return a.Scope&s != 0 }

// Lookup returns the row of an API; ok is false if we serve nothing of it.
func Lookup(key int16) (api API, ok bool) {
	if key < 0 || int(key) >= len(table) {
		return API{}, false
	}
	api = table[key]
	return api, api.Name != ""
}

// Table returns the rows in order of key. The slice is the caller's.
func Table() []API {
	rows := make([]API, 0, len(table))
	for i := range table {
		if table[i].Name != "" {
			rows = append(rows, table[i])
		}
	}
	return rows
}
