// What the suite needs beside the servers: certificates; a gate in front of an
// extension server that can be told to misbehave; and servers that always do.
//
//	helper pki FOLDER NAME...
//	helper gate -listen ADDRESS -control ADDRESS -backend ADDRESS -pki FOLDER -name NAME
//	helper rogue -pki FOLDER -liar ADDRESS -endless ADDRESS -garbled ADDRESS -expired ADDRESS
package main

import (
	"fmt"
	"os"
)

func main() {
	var err error
	switch {
	case len(os.Args) > 2 && os.Args[1] == "pki":
		err = writePKI(os.Args[2], os.Args[3:])
	case len(os.Args) > 1 && os.Args[1] == "gate":
		err = runGate(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "rogue":
		err = runRogue(os.Args[2:])
	default:
		err = fmt.Errorf("usage: helper pki FOLDER NAME... | helper gate FLAG... | helper rogue FLAG...")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
