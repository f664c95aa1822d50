package broker

// legalTopicName reports whether a topic may have this name: 1 to 249 letters,
// digits, dots, underscores and hyphens, but neither "." nor "..".
func legalTopicName(name string) bool {
	if name == "" || name == "." || name == ".." || len(name) > 249 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// internalTopic reports whether clients may only read the topic: the brokers
// themselves write it.
func internalTopic(name string) bool {
	return name == "__consumer_offsets" || name == "__transaction_state" || name == "__share_group_state"
}
