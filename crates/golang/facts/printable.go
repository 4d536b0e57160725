// Prints src/printable.rs: which characters Go's strconv.IsPrint knows.
//
//	go run facts/printable.go > src/printable.rs && cargo fmt
package main

import (
	"fmt"
	"strconv"
	"unicode"
)

func main() {
	var turns []rune
	var counts [17]int
	was := false
	for char := rune(0); char <= unicode.MaxRune; char++ {
		is := strconv.IsPrint(char)
		if is {
			counts[char>>16]++
		}
		if is != was {
			turns = append(turns, char)
		}
		was = is
	}
	fmt.Println("//! Made by `facts/printable.go`; do not edit.")
	fmt.Println()
	fmt.Printf("/// Unicode %s. Where characters begin to be printable, and cease, in turn.\n", unicode.Version)
	fmt.Printf("pub(crate) const TURNS: [u32; %d] = [\n", len(turns))
	for _, turn := range turns {
		fmt.Printf("0x%x, ", turn)
	}
	fmt.Println("\n];")
	fmt.Println()
	fmt.Println("/// How many are printable of each 65,536.")
	fmt.Println("#[cfg(test)]")
	fmt.Printf("pub(crate) const COUNTS: [usize; %d] = [", len(counts))
	for _, count := range counts {
		fmt.Printf("%d, ", count)
	}
	fmt.Println("];")
}
