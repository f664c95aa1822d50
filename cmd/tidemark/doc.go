// Command tidemark is the broker and the few tools that a newcomer needs
// beside it. Each subcommand is one file; what they do beyond parsing flags
// lives in the packages they call.
package main
