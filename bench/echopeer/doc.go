// Command echopeer answers every frame with the same few bytes and does nothing
// else. What a load sees of it is the price of the machine and the load
// generator: no broker's latency can be below it.
package main
