// Command apidoc writes docs/APIS.md from the table of APIs. It is run by go
// generate in package protocol, with the file's path as its argument.
package main
