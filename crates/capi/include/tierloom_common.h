/*
 * What both headers share: texts, the status of calls and the last error.
 *
 * docs/c.md explains it. Generated from crates/capi: change it there.
 */

#ifndef TIERLOOM_COMMON_H
#define TIERLOOM_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * The version of this interface; see `tl_abi_version`.
 */
#define TL_ABI_VERSION 0

/**
 * The longest text that functions take, in bytes.
 */
#define TL_MAX_TEXT (16 << 20)

/**
 * How a call ended. `tl_last_error` has the text.
 */
typedef enum {
    /**
     * The call did what was asked.
     */
    TL_OK = 0,
    /**
     * An argument is null, misaligned, no UTF-8, or of a size that cannot be.
     */
    TL_INVALID_ARGUMENT = 1,
    /**
     * The text, number or name has to be corrected; nothing was changed.
     */
    TL_BAD_INPUT = 2,
    /**
     * This machine or process lacks a node, a tier or a permission; the text says how to get it.
     */
    TL_UNAVAILABLE = 3,
    /**
     * There is not enough free memory where it was asked for.
     */
    TL_NO_MEMORY = 4,
    /**
     * Something failed while running.
     */
    TL_FAILED = 5,
    /**
     * A defect of the library; objects of the call should only be freed.
     */
    TL_PANIC = 6,
} tl_status;

/**
 * A text that the library made; freed with `tl_text_free`.
 *
 * Several threads may read one at once.
 */
typedef struct tl_text tl_text;

/**
 * A text: UTF-8, `len` bytes long. A zero byte at its end is not needed.
 *
 * `tl_string` makes one of a string of C. An empty text may have a null pointer.
 */
typedef struct {
    /**
     * The first byte.
     */
    const char *data;
    /**
     * Number of bytes.
     */
    size_t len;
} tl_str;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The message of the last call on this thread that failed; empty if there was none.
 *
 * The text ends with a zero byte. It stays valid until the next call on this thread fails, or the
 * thread ends.
 */
tl_str tl_last_error(void);

/**
 * The version of this interface.
 *
 * Programs compare it with `TL_ABI_VERSION` of the header that they were compiled with. It changes
 * when functions or structs change in a way that old programs do not understand; new functions,
 * new status codes and new fields at the end of structs do not change it.
 */
uint32_t tl_abi_version(void);

/**
 * The bytes of a text. They end with a zero byte, which `len` does not count, and stay valid until
 * the text is freed.
 *
 * # Safety
 * `text` is null or a text that is not freed meanwhile.
 */
tl_str tl_text_get(const tl_text *text);

/**
 * Frees a text; null is fine.
 *
 * # Safety
 * `text` is null or a text that nobody uses any more.
 */
void tl_text_free(tl_text *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TIERLOOM_COMMON_H */

#ifndef TIERLOOM_STRING
#define TIERLOOM_STRING

/**
 * A string of C as a text; null is the empty text.
 */
static inline tl_str tl_string(const char *string)
{
    tl_str text;
    text.data = string;
    text.len = string == NULL ? 0 : strlen(string);
    return text;
}

#endif /* TIERLOOM_STRING */
