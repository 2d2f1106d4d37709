// Sets up mirrors and sources of another domain by nats.go against the hub given as argument; prints what each call
// gave as JSON lines.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const wait = 90 * time.Second

type outcome struct {
	Name    string `json:"name"`
	Outcome any    `json:"outcome"`
}

type failure struct {
	Error string `json:"error"`
	Code  uint16 `json:"code"`
}

type message struct {
	Subject string
	Seq     uint64
	Headers nats.Header
	Data    string
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func print(name string, value any, err error) {
	if err != nil {
		var refused *jetstream.APIError
		if errors.As(err, &refused) {
			value = failure{refused.Description, uint16(refused.ErrorCode)}
		} else {
			value = failure{err.Error(), 0}
		}
	}
	check(json.NewEncoder(os.Stdout).Encode(outcome{name, value}))
}

func connect(nc *nats.Conn, domain string) jetstream.JetStream {
	js, err := jetstream.NewWithDomain(nc, domain)
	check(err)
	return js
}

// until returns a stream's info when it holds, and the last one when it does not in time.
func until(ctx context.Context, js jetstream.JetStream, name string, holds func(*jetstream.StreamInfo) bool) (any, error) {
	for end := time.Now().Add(wait); ; time.Sleep(50 * time.Millisecond) {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return nil, err
		}
		info := stream.CachedInfo()
		if holds(info) || time.Now().After(end) {
			return info, nil
		}
	}
}

// reaches waits until a copy has a sequence, and nothing left to copy.
func reaches(ctx context.Context, js jetstream.JetStream, name string, seq uint64) (any, error) {
	return until(ctx, js, name, func(info *jetstream.StreamInfo) bool {
		left := uint64(0)
		if info.Mirror != nil {
			left = info.Mirror.Lag
		}
		for _, source := range info.Sources {
			left += source.Lag
		}
		return info.State.LastSeq >= seq && left == 0
	})
}

func messages(ctx context.Context, js jetstream.JetStream, name string) (any, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	var found []any
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		one, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			found = append(found, fmt.Sprintf("%d is not there", seq))
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, message{one.Subject, one.Sequence, one.Header, string(one.Data)})
	}
	return found, nil
}

func ordered(ctx context.Context, js jetstream.JetStream, name string, count int) (any, error) {
	consumer, err := js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	var found []message
	for range count {
		one, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
		if err != nil {
			return nil, err
		}
		meta, err := one.Metadata()
		check(err)
		found = append(found, message{one.Subject(), meta.Sequence.Stream, one.Headers(), string(one.Data())})
	}
	return found, nil
}

func create(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) {
	stream, err := js.CreateStream(ctx, config)
	if err != nil {
		print("create "+config.Name, nil, err)
		return
	}
	print("create "+config.Name, stream.CachedInfo(), nil)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*wait)
	defer cancel()
	nc, err := nats.Connect(os.Args[1])
	check(err)
	defer nc.Close()
	hub, silt := connect(nc, "hub"), connect(nc, "silt")

	origin := jetstream.StreamConfig{Name: "GO_ORIGIN", Subjects: []string{"go.>"}, AllowDirect: true}
	create(ctx, hub, origin)
	for n := 1; n <= 6; n++ {
		one := &nats.Msg{Subject: "go." + string("ab"[n%2]), Data: fmt.Appendf(nil, "m%d", n)}
		if n%3 == 0 {
			one.Header = nats.Header{"Key": []string{"value"}, "Nats-Expected-Stream": []string{"GO_ORIGIN"}}
		}
		_, err := hub.PublishMsg(ctx, one)
		check(err)
	}
	stream, err := hub.Stream(ctx, "GO_ORIGIN")
	check(err)
	check(stream.DeleteMsg(ctx, 2))
	for _, name := range []string{"mirror", "source"} {
		consumer, err := stream.CreatePushConsumer(ctx, jetstream.ConsumerConfig{
			Durable: name, DeliverSubject: "go_named." + name, AckPolicy: jetstream.AckFlowControlPolicy,
			FlowControl: true, IdleHeartbeat: time.Second,
		})
		check(err)
		print("named consumer "+name, consumer.CachedInfo().Config, nil)
	}

	there := &jetstream.ExternalStream{APIPrefix: "$JS.hub.API", DeliverPrefix: "go_deliver"}
	moved := []jetstream.SubjectTransformConfig{{Source: "go.*", Destination: "moved.{{wildcard(1)}}"}}
	named := func(name string) *jetstream.StreamConsumerSource {
		return &jetstream.StreamConsumerSource{Name: name, DeliverSubject: "go_named." + name}
	}
	from := func(source jetstream.StreamSource) *jetstream.StreamSource {
		source.Name = "GO_ORIGIN"
		if source.External == nil {
			source.Domain = "hub"
		}
		return &source
	}
	whole := jetstream.StreamConfig{Name: "GO_WHOLE", Mirror: from(jetstream.StreamSource{}), MirrorDirect: true, AllowDirect: true}
	copies := []struct {
		config jetstream.StreamConfig
		last   uint64
	}{
		{whole, 6},
		{jetstream.StreamConfig{Name: "GO_PART", Mirror: from(jetstream.StreamSource{FilterSubject: "go.a", External: there})}, 6},
		{jetstream.StreamConfig{Name: "GO_NAMED", Mirror: from(jetstream.StreamSource{Consumer: named("mirror")})}, 6},
		{jetstream.StreamConfig{Name: "GO_NAMED_SOURCE",
			Sources: []*jetstream.StreamSource{from(jetstream.StreamSource{Consumer: named("source")})}}, 5},
		{jetstream.StreamConfig{Name: "GO_MOVED",
			Sources: []*jetstream.StreamSource{from(jetstream.StreamSource{SubjectTransforms: moved})}}, 5},
		{jetstream.StreamConfig{Name: "GO_LATER", Subjects: []string{"go_later"}, AllowDirect: true,
			Sources: []*jetstream.StreamSource{from(jetstream.StreamSource{OptStartSeq: 4})}}, 3},
	}
	for _, one := range copies {
		create(ctx, silt, one.config)
	}
	missing := &jetstream.StreamSource{Name: "NO_SUCH", Domain: "hub"}
	create(ctx, silt, jetstream.StreamConfig{Name: "GO_MISSING", Mirror: missing})
	create(ctx, silt, jetstream.StreamConfig{Name: "GO_BAD", Mirror: missing, Subjects: []string{"go_bad"}})
	for _, one := range copies {
		info, err := reaches(ctx, silt, one.config.Name, one.last)
		print("copied "+one.config.Name, info, err)
		found, err := messages(ctx, silt, one.config.Name)
		print("messages "+one.config.Name, found, err)
	}
	found, err := ordered(ctx, silt, "GO_WHOLE", 5)
	print("consumed", found, err)

	_, err = hub.Publish(ctx, "go.a", []byte("m7"))
	check(err)
	for _, one := range copies {
		last := one.last + 1
		info, err := reaches(ctx, silt, one.config.Name, last)
		print("followed "+one.config.Name, info, err)
	}
	names := []string{}
	listed := stream.ConsumerNames(ctx)
	for name := range listed.Name() {
		names = append(names, name)
	}
	sort.Strings(names)
	print("consumers of the origin", names, listed.Err())
	info, err := until(ctx, silt, "GO_MISSING", func(info *jetstream.StreamInfo) bool { return info.Mirror.Error != nil })
	print("a mirror of nothing", info, err)

	changed := whole
	changed.Mirror = from(jetstream.StreamSource{FilterSubject: "go.b"})
	_, err = silt.UpdateStream(ctx, changed)
	print("another mirror", nil, err)
	promoted := whole
	promoted.Mirror, promoted.MirrorDirect, promoted.Subjects = nil, false, []string{"go_whole"}
	stream, err = silt.UpdateStream(ctx, promoted)
	check(err)
	print("promoted", stream.CachedInfo(), nil)
	_, err = silt.Publish(ctx, "go_whole", []byte("of its own"))
	check(err)
	found, err = messages(ctx, silt, "GO_WHOLE")
	print("messages of its own", found, err)

	create(ctx, silt, jetstream.StreamConfig{Name: "GO_BACK", Subjects: []string{"go_back"}, Retention: jetstream.WorkQueuePolicy})
	for n := range 3 {
		_, err := silt.Publish(ctx, "go_back", fmt.Appendf(nil, "b%d", n))
		check(err)
	}
	back := &jetstream.StreamSource{Name: "GO_BACK", Domain: "silt"}
	create(ctx, hub, jetstream.StreamConfig{Name: "GO_BACK", Sources: []*jetstream.StreamSource{back}})
	info, err = reaches(ctx, hub, "GO_BACK", 3)
	print("copied back", info, err)
	found, err = messages(ctx, hub, "GO_BACK")
	print("messages that came back", found, err)
	info, err = until(ctx, silt, "GO_BACK", func(info *jetstream.StreamInfo) bool { return info.State.Msgs == 0 })
	print("taken from the work queue", info, err)

	// A work queue of Silt's, taken by a nats-server through a named consumer that acknowledges by flow control.
	create(ctx, silt, jetstream.StreamConfig{Name: "GO_QUEUE", Subjects: []string{"go_queue"}, Retention: jetstream.WorkQueuePolicy})
	queue, err := silt.Stream(ctx, "GO_QUEUE")
	check(err)
	taker, err := queue.CreatePushConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "taker", DeliverSubject: "go_named.taker", AckPolicy: jetstream.AckFlowControlPolicy,
		FlowControl: true, IdleHeartbeat: time.Second,
	})
	check(err)
	print("taker", taker.CachedInfo().Config, nil)
	for n := range 300 {
		_, err := silt.Publish(ctx, "go_queue", fmt.Appendf(nil, "q%d", n))
		check(err)
	}
	by := &jetstream.StreamSource{Name: "GO_QUEUE", Domain: "silt", Consumer: named("taker")}
	create(ctx, hub, jetstream.StreamConfig{Name: "GO_TAKEN", Sources: []*jetstream.StreamSource{by}})
	info, err = reaches(ctx, hub, "GO_TAKEN", 300)
	print("taken by the named consumer", info, err)
	found, err = messages(ctx, hub, "GO_TAKEN")
	print("messages taken by it", found, err)
	info, err = until(ctx, silt, "GO_QUEUE", func(info *jetstream.StreamInfo) bool { return info.State.Msgs == 0 })
	print("left in the queue", info, err)
	for _, js := range []jetstream.JetStream{silt, hub} {
		listed := js.StreamNames(ctx)
		for name := range listed.Name() {
			if len(name) > 3 && name[:3] == "GO_" {
				print("delete "+name, nil, js.DeleteStream(ctx, name))
			}
		}
	}
}
