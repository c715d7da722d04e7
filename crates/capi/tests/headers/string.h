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
