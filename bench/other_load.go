package bench

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// disturbance is how many cores other programs may use in a round before it is
// shown: the spinning side of a transport suffers most from them.
const disturbance = 0.25

// A loadMeter finds out how many cores other programs use meanwhile.
type loadMeter struct {
	start time.Time
	busy  time.Duration
	own   time.Duration
}

func startLoadMeter() *loadMeter {
	return &loadMeter{start: time.Now(), busy: machineBusy("/proc/stat"), own: processorTime()}
}

// others returns how many cores were busy with something else than this process
// and the given processor time of its workers; ok is false where the system does
// not tell.
func (m *loadMeter) others(workers time.Duration) (cores float64, ok bool) {
	passed, busy := time.Since(m.start), machineBusy("/proc/stat")
	if m.busy == 0 || busy == 0 || passed <= 0 {
		return 0, false
	}
	return max(0, (busy-m.busy-workers-(processorTime()-m.own)).Seconds()/passed.Seconds()), true
}

// machineBusy returns the time that all cores have spent working since the
// machine started, by the file /proc/stat; 0 where that does not tell.
func machineBusy(path string) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 everywhere
	stat, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0
	}
	// user nice system idle iowait irq softirq steal
	var busy time.Duration
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		ticks, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0
		}
		busy += time.Duration(ticks) * tick
	}
	return busy
}
