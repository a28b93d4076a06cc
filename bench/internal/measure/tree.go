//go:build linux

package measure

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc: USER_HZ, which is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// process is what /proc says of a process.
type process struct {
	pid, parent int
	cpu         time.Duration // its own, and of children that it waited for
}

// TreeCPU is the processor time, so far, of processes and all that descend from them, those that have ended included
// where their parent waited for them.
func TreeCPU(proc string, roots ...int) (time.Duration, error) {
	all, err := processes(proc)
	if err != nil {
		return 0, err
	}
	children := map[int][]process{}
	counted := map[int]bool{}
	var total time.Duration
	var add func(p process)
	add = func(p process) {
		if counted[p.pid] {
			return
		}
		counted[p.pid] = true
		total += p.cpu
		for _, child := range children[p.pid] {
			add(child)
		}
	}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	for _, root := range roots {
		add(all[root])
	}
	return total, nil
}

// processes reads the table of processes.
func processes(proc string) (map[int]process, error) {
	files, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	if err != nil {
		return nil, err
	}
	all := map[int]process{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		p, err := parseStat(data)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		all[p.pid] = p
	}
	return all, nil
}

// parseStat reads a line of /proc/PID/stat; see proc(5). The name of the program may hold anything, so fields are counted
// from its end.
func parseStat(line []byte) (process, error) {
	end := bytes.LastIndexByte(line, ')')
	fields := strings.Fields(string(line[end+1:]))
	head := strings.Fields(string(line))
	if end < 0 || len(fields) < 15 {
		return process{}, fmt.Errorf("no line of a process: %q", line)
	}
	var numbers [6]int
	for i, field := range []string{head[0], fields[1], fields[11], fields[12], fields[13], fields[14]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return process{}, fmt.Errorf("no number in the line of a process: %w", err)
		}
		numbers[i] = n
	}
	return process{pid: numbers[0], parent: numbers[1], cpu: tick * time.Duration(numbers[2]+numbers[3]+numbers[4]+numbers[5])}, nil
}

// BusyCPU is the processor time, so far, of everything on the machine, the time that a hypervisor took included.
func BusyCPU(proc string) (time.Duration, error) {
	data, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(first) // cpu user nice system idle iowait irq softirq steal guest guest_nice, and guest is in user
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("reading what the processors did: no such line: %q", first)
	}
	var total time.Duration
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading what the processors did: %w", err)
		}
		total += tick * time.Duration(n)
	}
	return total, nil
}

// ResetPeak makes the kernel forget the peak memory of processes.
func ResetPeak(proc string, pids ...int) error {
	for _, pid := range pids {
		if err := os.WriteFile(filepath.Join(proc, strconv.Itoa(pid), "clear_refs"), []byte("5"), 0); err != nil {
			return fmt.Errorf("forgetting peak memory: %w", err)
		}
	}
	return nil
}

// Peak is the sum of the peak memory of processes, in bytes.
func Peak(proc string, pids ...int) (int64, error) {
	var total int64
	for _, pid := range pids {
		status, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
		if err != nil {
			return 0, fmt.Errorf("reading peak memory: %w", err)
		}
		_, rest, _ := strings.Cut(string(status), "VmHWM:")
		line, _, _ := strings.Cut(rest, "\n")
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("reading peak memory of %d: %w", pid, err)
		}
		total += kib << 10
	}
	return total, nil
}
