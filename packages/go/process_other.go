//go:build !unix

package sternpost

import (
	"os"
	"os/exec"
)

func prepare(*exec.Cmd) {}

func terminate(process *os.Process) {
	_ = process.Kill()
}
