// Package simtime is time for a simulated world: one virtual clock, one heap of
// everything that is to happen, and one goroutine that makes it happen.
//
// A Sim is the world's heap; a Runtime is what one node's loops see of it, with
// that node's own clocks. Of events due at the same instant a number drawn from
// the seed says which comes first, so that a seed is an order of everything,
// and another seed another order. Nothing here reads a clock or a source of
// chance of the operating system.
package simtime
