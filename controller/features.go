package controller

import (
	"fmt"

	"github.com/tidemark/tidemark/controller/metadata"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The ways in which a feature's level may be moved. Source: KIP-584, KIP-778.
const (
	upgradeOnly     int8 = 1
	safeDowngrade   int8 = 2
	unsafeDowngrade int8 = 3
)

// updateFeatures handles UpdateFeatures v0–2: all updates or none.
func (c *Controller) updateFeatures(view *metadata.Image, req *kmsg.UpdateFeaturesRequest) Result {
	var unit []metadata.Record
	named := map[string]bool{}
	for i := range req.FeatureUpdates {
		u := &req.FeatureUpdates[i]
		how := u.UpgradeType
		if req.Version < 1 {
			if how = upgradeOnly; u.AllowDowngrade {
				how = safeDowngrade
			}
		}
		why := c.checkFeature(view, u.Feature, u.MaxVersionLevel, how)
		if named[u.Feature] {
			why = "it is named twice"
		}
		if why != "" {
			text := fmt.Sprintf("invalid update version %d for feature %s: %s", u.MaxVersionLevel, u.Feature, why)
			return Result{reply: ErrorReply(req, codeInvalidUpdateVersion, text)}
		}
		named[u.Feature] = true
		if view.Feature(u.Feature) != u.MaxVersionLevel {
			unit = append(unit, &metadata.FeatureLevel{Feature: metadata.Feature{Name: u.Feature, Level: u.MaxVersionLevel}})
		}
	}
	r := Result{reply: updatedFeatures(req, apiError{})}
	if len(unit) > 0 && !(req.ValidateOnly && req.Version >= 1) {
		r.Units = [][]metadata.Record{unit}
	}
	return r
}

// checkFeature says what stands against a level, or "".
func (c *Controller) checkFeature(view *metadata.Image, name string, level int16, how int8) string {
	now := view.Feature(name)
	switch {
	case how != upgradeOnly && how != safeDowngrade && how != unsafeDowngrade:
		return "the controller does not know this way of updating"
	case level < 0:
		return "a feature version cannot be less than 0"
	case !covers(c.config.Features, name, level):
		return "the controller does not support this version of it"
	case level < now && how == upgradeOnly:
		return "a downgrade has to be asked for as one"
	case level > now && how != upgradeOnly:
		return "an upgrade can't be asked for as a downgrade"
	}
	for _, b := range view.Brokers() {
		if len(b.Features) > 0 && !covers(b.Features, name, level) {
			return fmt.Sprintf("broker %d does not support it", b.ID)
		}
	}
	return ""
}

// covers reports whether ranges allow a level of a feature. Level 0 removes it,
// which those allow that start there.
func covers(ranges []metadata.FeatureRange, name string, level int16) bool {
	for _, r := range ranges {
		if r.Name == name {
			return r.Min <= level && level <= r.Max
		}
	}
	return false
}

// updatedFeatures answers every update with one outcome: they happen together.
func updatedFeatures(req *kmsg.UpdateFeaturesRequest, e apiError) *kmsg.UpdateFeaturesResponse {
	r := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	r.ErrorCode, r.ErrorMessage = e.code, e.text()
	if req.Version >= 2 {
		return r
	}
	for i := range req.FeatureUpdates {
		res := kmsg.NewUpdateFeaturesResponseResult()
		res.Feature, res.ErrorCode, res.ErrorMessage = req.FeatureUpdates[i].Feature, e.code, e.text()
		r.Results = append(r.Results, res)
	}
	return r
}
