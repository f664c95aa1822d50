// Command kfakepeer runs franz-go's in-memory kfake broker as a process of its
// own, so that it can be measured like any other broker.
package main
