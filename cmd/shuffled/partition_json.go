package main

import (
	"time"

	"shuffled/shuffle"
)

// partitionJSON is a partition as programs see it. Fields are only ever added.
type partitionJSON struct {
	ID                  string             `json:"id"`
	Name                string             `json:"name"`
	Attempt             uint32             `json:"attempt"`
	Type                string             `json:"type"`
	State               string             `json:"state"`
	Failure             string             `json:"failure,omitempty"`
	Created             time.Time          `json:"created"`
	Ended               *time.Time         `json:"ended,omitempty"`
	Subpartitions       int                `json:"subpartitions"`
	Producer            processJSON        `json:"producer"`
	ProducerAttached    bool               `json:"producer_attached"`
	PoolRequired        int                `json:"pool_required"`
	PoolSize            int                `json:"pool_size"`
	PoolMax             int                `json:"pool_max"`
	SegmentsHeld        int                `json:"segments_held"`
	Bytes               uint64             `json:"bytes"`
	Buffers             uint64             `json:"buffers"`
	Records             uint64             `json:"records"`
	BackPressuredSec    float64            `json:"back_pressured_seconds"`
	ProducerWakeUps     uint64             `json:"producer_wake_ups"`
	HeldBytes           int64              `json:"held_bytes"`
	Readers             int                `json:"readers,omitempty"`
	Keeper              *processJSON       `json:"keeper,omitempty"`
	KeeperStillSec      float64            `json:"keeper_still_seconds,omitempty"`
	SubpartitionDetails []subpartitionJSON `json:"subpartition_details,omitempty"`
}

type processJSON struct {
	PID int32  `json:"pid"` // 0 if it is not visible
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

type subpartitionJSON struct {
	Index            int          `json:"index"`
	State            string       `json:"state"`
	BuffersPublished uint64       `json:"buffers_published"`
	BuffersReleased  uint64       `json:"buffers_released"`
	Bytes            uint64       `json:"bytes"`
	Consumer         *processJSON `json:"consumer,omitempty"`
	Gate             uint64       `json:"gate,omitempty"`
	Channel          *int         `json:"channel,omitempty"`
}

func newProcessJSON(p shuffle.Principal) processJSON {
	return processJSON{PID: p.PID, UID: p.UID, GID: p.GID}
}

func newPartitionJSON(i *shuffle.PartitionInfo) partitionJSON {
	j := partitionJSON{
		ID: i.ID.String(), Name: i.Name, Attempt: i.Attempt, Type: i.Type.String(), State: i.State, Failure: i.Failure,
		Created: i.Created.UTC(), Subpartitions: i.Subpartitions,
		Producer: newProcessJSON(i.Producer), ProducerAttached: i.ProducerAttached,
		PoolRequired: i.PoolRequired, PoolSize: i.PoolSize, PoolMax: i.PoolMax, SegmentsHeld: i.SegmentsHeld,
		Bytes: i.BytesOut, Buffers: i.BuffersOut, Records: i.Records,
		BackPressuredSec: i.BackPressured.Seconds(), ProducerWakeUps: i.WakeUps, HeldBytes: i.HeldBytes,
	}
	if i.Readers > 0 {
		keeper := newProcessJSON(i.Keeper)
		j.Readers, j.Keeper, j.KeeperStillSec = i.Readers, &keeper, max(0, time.Since(i.StillSince)).Seconds()
	}
	if !i.Ended.IsZero() {
		j.Ended = new(i.Ended.UTC())
	}
	for _, s := range i.SubpartitionInfo {
		row := subpartitionJSON{
			Index: s.Index, State: s.State, BuffersPublished: s.BuffersPublished, BuffersReleased: s.BuffersReleased,
			Bytes: s.BytesOut,
		}
		if isAttached(&s) {
			consumer := newProcessJSON(s.Consumer)
			row.Consumer, row.Gate, row.Channel = &consumer, s.GateID, &s.Channel
		}
		j.SubpartitionDetails = append(j.SubpartitionDetails, row)
	}
	return j
}

// isAttached reports whether somebody reads a subpartition, so that its row says
// who.
func isAttached(s *shuffle.SubpartitionInfo) bool { return s.GateID != 0 }
