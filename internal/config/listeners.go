package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tidemark/tidemark/internal/model"
)

// Security protocols of listeners. Source: KIP-103.
const (
	Plaintext     = "PLAINTEXT"
	SSL           = "SSL"
	SASLPlaintext = "SASL_PLAINTEXT"
	SASLSSL       = "SASL_SSL"
)

// Listener is one named address.
type Listener struct {
	// Name is the listener's name in upper case, such as PLAINTEXT or CONTROLLER.
	Name string
	// Host is a host name or an address without brackets. Empty is every
	// interface for a listener, and the machine's host name when advertised.
	Host string
	// Port is the TCP port; 0 takes a free one, and in an advertised listener
	// stands for the port that its listener really got.
	Port int32
	// Protocol is one of the security protocols.
	Protocol string
}

// Address returns host:port, with brackets around an IPv6 address.
func (l Listener) Address() string { return joinHostPort(l.Host, l.Port) }

// String returns NAME://host:port.
func (l Listener) String() string { return l.Name + "://" + l.Address() }

// Wildcard reports whether the listener is on every interface.
func (l Listener) Wildcard() bool { return l.Host == "" || l.Host == "0.0.0.0" || l.Host == "::" }

// Addresses returns the addresses to listen on. localhost is two of them, the
// IPv4 and the IPv6 loopback, because clients differ in which they try. When
// Port is 0 the caller binds the first, and the second to the port it got; the
// second may fail where the machine has no IPv6.
func (l Listener) Addresses() []string {
	if strings.EqualFold(l.Host, "localhost") {
		return []string{joinHostPort("127.0.0.1", l.Port), joinHostPort("::1", l.Port)}
	}
	return []string{l.Address()}
}

func joinHostPort(host string, port int32) string {
	p := strconv.FormatInt(int64(port), 10)
	if strings.Contains(host, ":") {
		return "[" + host + "]:" + p
	}
	return host + ":" + p
}

// splitHostPort reads host:port or [v6]:port.
func splitHostPort(s string) (host string, port int32, ok bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return "", 0, false
	}
	host = s[:i]
	n, err := strconv.ParseUint(s[i+1:], 10, 16)
	if err != nil {
		return "", 0, false
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	} else if strings.Contains(host, ":") {
		return "", 0, false
	}
	if strings.ContainsAny(host, "[]/ \t,") {
		return "", 0, false
	}
	return host, int32(n), true
}

const listenerWant = "NAME://host:port items, comma separated, each name once"

// parseListeners reads the value of listeners or advertised.listeners. A bare
// host:port gets the name PLAINTEXT.
func parseListeners(value string) ([]Listener, bool) {
	var all []Listener
	for _, item := range splitList(value) {
		name, rest, found := strings.Cut(item, "://")
		if !found {
			name, rest = Plaintext, item
		}
		host, port, ok := splitHostPort(rest)
		name = strings.ToUpper(name)
		dup := slices.ContainsFunc(all, func(l Listener) bool { return l.Name == name })
		if !ok || dup || !listenerName(name) {
			return nil, false
		}
		all = append(all, Listener{Name: name, Host: host, Port: port})
	}
	return all, true
}

func listenerName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return s != ""
}

// parseProtocolMap reads NAME:PROTOCOL pairs.
func parseProtocolMap(value string) (map[string]string, bool) {
	m := map[string]string{}
	for _, item := range splitList(value) {
		name, protocol, found := strings.Cut(item, ":")
		name, protocol = strings.ToUpper(strings.TrimSpace(name)), strings.ToUpper(strings.TrimSpace(protocol))
		if _, dup := m[name]; dup || !found || !listenerName(name) || !isProtocol(protocol) {
			return nil, false
		}
		m[name] = protocol
	}
	return m, true
}

func isProtocol(s string) bool {
	return s == Plaintext || s == SSL || s == SASLPlaintext || s == SASLSSL
}

// parseVoters reads id@host:port items with distinct ids.
func parseVoters(value string) ([]Voter, bool) {
	var all []Voter
	for _, item := range splitList(value) {
		id, rest, found := strings.Cut(item, "@")
		n, err := strconv.ParseInt(id, 10, 32)
		host, port, ok := splitHostPort(rest)
		dup := slices.ContainsFunc(all, func(v Voter) bool { return v.ID == model.BrokerID(n) })
		if !found || err != nil || n < 0 || !ok || host == "" || port == 0 || dup {
			return nil, false
		}
		all = append(all, Voter{ID: model.BrokerID(n), Host: host, Port: port})
	}
	return all, true
}

// parseIPOverrides reads host:count pairs.
func parseIPOverrides(value string) (map[string]int32, bool) {
	m := map[string]int32{}
	for _, item := range splitList(value) {
		i := strings.LastIndexByte(item, ':')
		if i <= 0 {
			return nil, false
		}
		n, err := strconv.ParseInt(strings.TrimSpace(item[i+1:]), 10, 32)
		if err != nil || n < 0 {
			return nil, false
		}
		m[strings.TrimSpace(item[:i])] = int32(n)
	}
	return m, true
}

func hostPortOrEmpty(value string) string {
	if value == "" {
		return ""
	}
	if _, _, ok := splitHostPort(value); !ok {
		return "host:port, or empty for off"
	}
	return ""
}

func parseInt(value string) (int64, error) {
	return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
}
