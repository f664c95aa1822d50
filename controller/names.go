package controller

import (
	"fmt"
	"strings"

	"github.com/tidemark/tidemark/controller/metadata"
)

// topicNameMax is the longest legal topic name: with "-" and a partition number
// it must be a file name, also with a suffix.
const topicNameMax = 249

// CheckTopicName says why name cannot be a topic's, or "". The rules are those
// of Kafka's Topic.validate.
func CheckTopicName(name string) string {
	switch {
	case name == "":
		return "the topic name is empty"
	case name == "." || name == "..":
		return fmt.Sprintf("%q cannot be a topic name", name)
	case len(name) > topicNameMax:
		return fmt.Sprintf("the topic name has %d characters, at most %d are allowed", len(name), topicNameMax)
	}
	for i := range len(name) {
		if !legal(name[i]) {
			return fmt.Sprintf("topic name %q: only letters, digits, '.', '_' and '-' are allowed", name)
		}
	}
	return ""
}

func legal(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.' || b == '_' || b == '-'
}

// collisionKey maps names that would make the same metric name to one: '.' and
// '_' count as the same character there.
func collisionKey(name string) string { return strings.ReplaceAll(name, ".", "_") }

// collision returns the existing topic that name collides with, or "".
func collision(view *metadata.Image, name string) string {
	if !strings.ContainsAny(name, "._") {
		return ""
	}
	key := collisionKey(name)
	// Names that collide agree up to the first '.' or '_'.
	prefix := name[:strings.IndexAny(name, "._")]
	for t := range view.TopicsFrom(prefix) {
		if !strings.HasPrefix(t.Name, prefix) {
			return ""
		}
		if t.Name != name && collisionKey(t.Name) == key {
			return t.Name
		}
	}
	return ""
}
