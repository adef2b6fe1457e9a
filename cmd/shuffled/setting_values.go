package main

import (
	"fmt"
	"math/bits"
	"net"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuffled/internal/cli"
	"shuffled/internal/units"
	"shuffled/ipc"
)

// sizeValue is a number of bytes from least to most.
type sizeValue struct {
	bytes       *int64
	least, most int64
	powerOfTwo  bool
}

func (v sizeValue) String() string { return units.FormatSize(*v.bytes) }

func (v sizeValue) Set(text string) error {
	n, err := units.ParseSize(text)
	if err != nil {
		return err
	}
	kind := ""
	if v.powerOfTwo {
		kind = "a power of two "
	}
	if n < v.least || n > v.most || v.powerOfTwo && bits.OnesCount64(uint64(n)) != 1 {
		return fmt.Errorf("got %d bytes, want %sfrom %s to %s", n, kind, units.FormatSize(v.least),
			units.FormatSize(v.most))
	}
	*v.bytes = n
	return nil
}

// intValue is a whole number from least to most.
type intValue struct {
	n           *int
	least, most int
}

func (v intValue) String() string { return strconv.Itoa(*v.n) }

func (v intValue) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < v.least || n > v.most {
		return fmt.Errorf("want a whole number from %d to %d", v.least, v.most)
	}
	*v.n = n
	return nil
}

// durationValue is a time from least to most.
type durationValue struct {
	d           *time.Duration
	least, most time.Duration
}

func (v durationValue) String() string { return shortDuration(*v.d) }

func (v durationValue) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < v.least || d > v.most {
		return fmt.Errorf("want a time with its unit from %s to %s, such as 1m30s", shortDuration(v.least),
			shortDuration(v.most))
	}
	*v.d = d
	return nil
}

// shortDuration drops the zero units that Duration.String keeps: "10m", not
// "10m0s".
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// choiceValue is one of a few words.
type choiceValue struct {
	word    *string
	choices []string
}

func (v choiceValue) String() string { return *v.word }

func (v choiceValue) Set(text string) error {
	if !slices.Contains(v.choices, text) {
		return fmt.Errorf("want one of %s%s", strings.Join(v.choices, ", "), cli.DidYouMean(text, v.choices, ""))
	}
	*v.word = text
	return nil
}

// idsValue is a list of uids or gids, separated by commas.
type idsValue struct{ ids *[]uint32 }

func (v idsValue) String() string {
	var texts []string
	for _, id := range *v.ids {
		texts = append(texts, strconv.FormatUint(uint64(id), 10))
	}
	return strings.Join(texts, ",")
}

func (v idsValue) Set(text string) error {
	var ids []uint32
	for field := range strings.SplitSeq(text, ",") {
		field = strings.TrimSpace(field)
		if field == "" && text == "" {
			break
		}
		id, err := strconv.ParseUint(field, 10, 32)
		if err != nil || id == 1<<32-1 {
			return fmt.Errorf("%q is not a numeric id from 0 to %d; want a comma-separated list, such as 1000,1001",
				field, uint32(1<<32-2))
		}
		ids = append(ids, uint32(id))
	}
	*v.ids = ids
	return nil
}

// uidValue is a uid, or nil for none.
type uidValue struct{ uid **uint32 }

func (v uidValue) String() string {
	if *v.uid == nil {
		return ""
	}
	return strconv.FormatUint(uint64(**v.uid), 10)
}

func (v uidValue) Set(text string) error {
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil || id == 1<<32-1 {
		return fmt.Errorf("want a numeric uid from 0 to %d", uint32(1<<32-2))
	}
	*v.uid = new(uint32(id))
	return nil
}

// boolValue is set by a flag without a value.
type boolValue struct{ on *bool }

func (v boolValue) String() string { return strconv.FormatBool(*v.on) }

func (v boolValue) Set(text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return fmt.Errorf("want true or false")
	}
	*v.on = on
	return nil
}

// socketPath is the path of a Unix socket.
type socketPath string

func (v *socketPath) String() string { return string(*v) }

func (v *socketPath) Set(text string) error {
	if err := ipc.CheckSocketPath(text); err != nil {
		return err
	}
	*v = socketPath(text)
	return nil
}

// tcpAddress is HOST:PORT to listen on, or "".
type tcpAddress string

func (v *tcpAddress) String() string { return string(*v) }

func (v *tcpAddress) Set(text string) error {
	if text != "" {
		_, port, err := net.SplitHostPort(text)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return fmt.Errorf(`want HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:9464, or "" for none`)
		}
	}
	*v = tcpAddress(text)
	return nil
}

// groupName is a group of users, by name or gid.
type groupName struct{ text *string }

func (v groupName) String() string { return *v.text }

func (v groupName) Set(text string) error {
	if _, err := lookUpGroup(text); err != nil {
		return err
	}
	*v.text = text
	return nil
}

// lookUpGroup returns the gid of a group that is given by name or gid.
func lookUpGroup(text string) (int, error) {
	if id, err := strconv.ParseUint(text, 10, 32); err == nil && id < 1<<32-1 {
		return int(id), nil
	}
	group, err := user.LookupGroup(text)
	if err != nil {
		return 0, fmt.Errorf("no group has that name: want one of /etc/group, or a gid")
	}
	id, err := strconv.ParseUint(group.Gid, 10, 32)
	return int(id), err
}
