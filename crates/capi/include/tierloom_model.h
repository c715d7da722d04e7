/*
 * Predictions for work on machines with DRAM and CXL memory. Nothing is measured.
 *
 * docs/c.md explains it. Generated from crates/capi: change it there.
 */

#ifndef TIERLOOM_MODEL_H
#define TIERLOOM_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "tierloom_common.h"

/**
 * Bytes of the texts in results, the zero byte at the end included.
 */
#define TL_LETTERS 64

/**
 * A machine profile; freed with `tl_machine_free`.
 *
 * It never changes, so several threads may use one at once.
 */
typedef struct tl_machine tl_machine;

/**
 * What the model says about work on a machine; see `tl_predict`.
 */
typedef struct {
    /**
     * Set to `sizeof(tl_prediction)` before the call.
     */
    size_t size;
    /**
     * Throughput of all workers together.
     */
    double tuples_per_s;
    /**
     * Lower end of its range, over the uncertainty of the profile and the errors of checks.
     */
    double tuples_per_s_low;
    /**
     * Upper end of that range.
     */
    double tuples_per_s_high;
    /**
     * Tuples of the whole work.
     */
    double tuples;
    /**
     * Time for the whole work in nanoseconds.
     */
    double time_ns;
    /**
     * Bytes per tuple, for a rate in bytes; not a number (`isnan`) where the work has none.
     */
    double bytes_per_tuple;
    /**
     * Number of workers.
     */
    uint32_t workers;
    /**
     * 0; for later versions.
     */
    uint32_t reserved;
    /**
     * What takes most of the time, such as `bandwidth of dram`, with a zero byte at the end.
     */
    char bottleneck[TL_LETTERS];
} tl_prediction;

/**
 * The best weights of memory tiers for work on a machine; see `tl_tune`.
 */
typedef struct {
    /**
     * Set to `sizeof(tl_tuning)` before the call.
     */
    size_t size;
    /**
     * Modelled rate with the weights, in tuples per second.
     */
    double tuples_per_s;
    /**
     * That rate over the one with everything on the first tier; 1 means no gain.
     */
    double gain;
    /**
     * Lower end of the gain's range.
     */
    double gain_low;
    /**
     * Upper end of the gain's range.
     */
    double gain_high;
    /**
     * Share of the pages that is not on the first tier, 0 to 1.
     */
    double share_off_first;
    /**
     * Number of workers.
     */
    uint32_t workers;
    /**
     * 0; for later versions.
     */
    uint32_t reserved;
    /**
     * The weights as a placement, such as `dram:3,cxl:2`, with a zero byte at the end.
     */
    char weights[TL_LETTERS];
    /**
     * What takes most of the time with them.
     */
    char bottleneck[TL_LETTERS];
} tl_tuning;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Number of machine profiles that are built in.
 */
size_t tl_machine_count(void);

/**
 * Name of a built-in profile, for numbers below `tl_machine_count`; empty for others.
 *
 * The text is valid as long as the library is loaded. It has no zero byte at its end.
 */
tl_str tl_machine_name(size_t number);

/**
 * Loads a profile: a built-in one by its name, or a YAML file if the text contains a `/` or ends
 * in `.yaml` or `.yml`.
 *
 * # Safety
 * `name` can be read, and a pointer can be written to `machine`.
 */
tl_status tl_machine_load(tl_str name, tl_machine **machine);

/**
 * The profile as YAML, each number with its source.
 *
 * # Safety
 * `machine` is a machine, and a pointer can be written to `yaml`.
 */
tl_status tl_machine_yaml(const tl_machine *machine, tl_text **yaml);

/**
 * Frees a machine; null is fine.
 *
 * # Safety
 * `machine` is null or a machine that nobody uses any more.
 */
void tl_machine_free(tl_machine *machine);

/**
 * Predicts work on a machine.
 *
 * `work` is a benchmark as `tierloom predict --work` takes it (`probe`,
 * `probe:table_bytes=16GiB`, or the path of a YAML file) and `placement` where its data is (`3:2`,
 * `cxl`, `table=cxl,default=dram`); an empty placement is all on the first tier. 0 workers are one
 * per core.
 *
 * # Safety
 * `machine` is a machine, the texts can be read, and `prediction` can be written.
 */
tl_status tl_predict(const tl_machine *machine,
                     tl_str work,
                     tl_str placement,
                     uint32_t workers,
                     tl_prediction *prediction);

/**
 * Finds the best weights for one phase of work on a machine.
 *
 * `phase` is written as `work` of `tl_predict`. Everything is spread over all tiers of the machine
 * but memory of another socket; `tl_tune_json` has more choices.
 *
 * # Safety
 * `machine` is a machine, the text can be read, and `tuning` can be written.
 */
tl_status tl_tune(const tl_machine *machine, tl_str phase, uint32_t workers, tl_tuning *tuning);

/**
 * Predicts what a JSON object asks, and answers with the document that `tierloom predict --json`
 * prints.
 *
 * The object has the options of that command as fields:
 * `{"machine": "nus24", "work": "probe", "placement": "3:2", "versus": "dram", "workers": 16}`.
 *
 * # Safety
 * The text can be read, and a pointer can be written to `answer`.
 */
tl_status tl_predict_json(tl_str question, tl_text **answer);

/**
 * Finds weights for what a JSON object asks, and answers with the document that `tierloom tune
 * --json` prints.
 *
 * The object has options of that command as fields: `{"machine": "nus24", "phases": ["probe"]}`,
 * with `tiers`, `moved`, `work` and `workers` if need be.
 *
 * # Safety
 * The text can be read, and a pointer can be written to `answer`.
 */
tl_status tl_tune_json(tl_str question, tl_text **answer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TIERLOOM_MODEL_H */
