// Empty does nothing: no program in Go starts faster.
package main

func main() {}
