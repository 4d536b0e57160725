//go:build unix

package sternpost

import (
	"os"
	"os/exec"
	"syscall"
)

// In a group of its own: a Ctrl-C at the terminal is for the tests, which end the server then.
func prepare(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func terminate(process *os.Process) {
	_ = process.Signal(syscall.SIGTERM)
}
