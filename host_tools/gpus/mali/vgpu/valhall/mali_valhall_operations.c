/* SPDX-License-Identifier: BSD-2-Clause */
/* What Valhall's operations are in micro-operations. Sources: see mali_valhall.h. */
#include "mali_bifrost_float.h"
#include "mali_bifrost_half.h"
#include "mali_bifrost_integer.h"
#include "mali_bifrost_narrow.h"
#include "mali_valhall_meaning.h"

/* Places of two elements in `keep`, of four, and of three sources of halves in `detail`. */
#define V2 (16u << 8)
#define V4 (8u << 8 | 16u << 16 | 24u << 24)
#define HALVES 0x2au
#define RSCALE (RSCALE_ZERO_TIMES_INFINITY | ROUND_EVEN)

#define SHIFTS(how, HOW)                                                                                     \
    [VALHALL_LSHIFT_##HOW##_I32] = {.begin = valhall_on_shift_word, .detail = (how)},                        \
    [VALHALL_RSHIFT_##HOW##_I32] = {.begin = valhall_on_shift_word, .detail = (how) | 4},                    \
    [VALHALL_LSHIFT_##HOW##                                                                                  \
        _V2I16] = {.begin = valhall_on_shift_narrow, .runs = bifrost_shift_logic_v2, .detail = (how)},       \
    [VALHALL_RSHIFT_##HOW##                                                                                  \
        _V2I16] = {.begin = valhall_on_shift_narrow, .runs = bifrost_shift_logic_v2, .detail = (how) | 4},   \
    [VALHALL_LSHIFT_##HOW##                                                                                  \
        _V4I8] = {.begin = valhall_on_shift_narrow, .runs = bifrost_shift_logic_v4, .detail = (how)},        \
    [VALHALL_RSHIFT_##HOW##                                                                                  \
        _V4I8] = {.begin = valhall_on_shift_narrow, .runs = bifrost_shift_logic_v4, .detail = (how) | 4}

#define COMPARISONS(how, and)                                                                                \
    [VALHALL_ICMP_##how##                                                                                    \
        _U32] = {.begin = valhall_on_compare_integers, .runs = bifrost_icmp_u32, .detail = 32 | (and)},      \
 [VALHALL_ICMP_##how##_S32] = {.begin = valhall_on_compare_integers,                                         \
                               .runs = bifrost_icmp_s32,                                                     \
                               .detail = 32 | (and),                                                         \
                               .is_signed = true},                                                           \
 [VALHALL_ICMP_##how##                                                                                       \
     _V2U16] = {.begin = valhall_on_compare_integers, .runs = bifrost_icmp_u16, .detail = 16 | (and)},       \
 [VALHALL_ICMP_##how##_V2S16] = {.begin = valhall_on_compare_integers,                                       \
                                 .runs = bifrost_icmp_s16,                                                   \
                                 .detail = 16 | (and),                                                       \
                                 .is_signed = true},                                                         \
 [VALHALL_ICMP_##how##                                                                                       \
     _V4U8] = {.begin = valhall_on_compare_integers, .runs = bifrost_icmp_u8, .detail = 8 | (and)},          \
 [VALHALL_ICMP_##how##_V4S8] = {.begin = valhall_on_compare_integers,                                        \
                                .runs = bifrost_icmp_s8,                                                     \
                                .detail = 8 | (and),                                                         \
                                .is_signed = true},                                                          \
 [VALHALL_FCMP_##how##                                                                                       \
     _F32] = {.begin = valhall_on_compare_floats, .runs = bifrost_fcmp32, .detail = 32 | (and)},             \
 [VALHALL_FCMP_##how##                                                                                       \
     _V2F16] = {.begin = valhall_on_compare_floats, .runs = bifrost_fcmp16, .detail = 16 | (and)}

static bifrost_run *const saturating_sums[4] = {bifrost_iadd_saturating_u32, bifrost_isub_saturating_u32,
                                                bifrost_iadd_saturating, bifrost_isub_saturating};

/* In `runs` of sums: 3 * subtract + (not, signed, unsigned saturating), or a place in saturating_sums. */
static const struct valhall_meaning meanings[VALHALL_OPERATIONS] = {
    [VALHALL_NOP] = {.begin = valhall_on_nothing},
    [VALHALL_CSEL_F32] = {.begin = valhall_on_choose, .runs = bifrost_csel_f32},
    [VALHALL_CSEL_V2F16] = {.begin = valhall_on_choose, .runs = bifrost_csel_f16, .detail = HALVES},
    [VALHALL_CSEL_U32] = {.begin = valhall_on_choose_integers, .runs = bifrost_csel_u32},
    [VALHALL_CSEL_S32] = {.begin = valhall_on_choose_integers, .runs = bifrost_csel_s32},
    [VALHALL_CSEL_V2U16] = {.begin = valhall_on_choose_integers, .runs = bifrost_csel_u16, .detail = 16},
    [VALHALL_CSEL_V2S16] = {.begin = valhall_on_choose_integers, .runs = bifrost_csel_s16, .detail = 16},
    [VALHALL_V2S16_TO_V2F16] = {.begin = valhall_on_halves_of_integers,
                                .run = bifrost_halves_of_s16,
                                .is_signed = true},
    [VALHALL_V2U16_TO_V2F16] = {.begin = valhall_on_halves_of_integers, .run = bifrost_halves_of_u16},
    [VALHALL_S32_TO_F32] = {.begin = valhall_on_to_float, .run = bifrost_from_s32, .is_signed = true},
    [VALHALL_U32_TO_F32] = {.begin = valhall_on_to_float, .run = bifrost_from_u32},
    [VALHALL_S16_TO_S32] = {.begin = valhall_on_half_part, .run = bifrost_extract_signed},
    [VALHALL_U16_TO_U32] = {.begin = valhall_on_half_part, .run = bifrost_extract_unsigned},
    [VALHALL_S16_TO_F32] = {.begin = valhall_on_half_part, .run = bifrost_from_signed_lane},
    [VALHALL_U16_TO_F32] = {.begin = valhall_on_half_part, .run = bifrost_from_unsigned_lane},
    [VALHALL_S8_TO_S32] = {.begin = valhall_on_byte_part, .run = bifrost_extract_signed},
    [VALHALL_U8_TO_U32] = {.begin = valhall_on_byte_part, .run = bifrost_extract_unsigned},
    [VALHALL_S8_TO_F32] = {.begin = valhall_on_byte_part, .run = bifrost_from_signed_lane},
    [VALHALL_U8_TO_F32] = {.begin = valhall_on_byte_part, .run = bifrost_from_unsigned_lane},
    [VALHALL_F32_TO_S32] = {.begin = valhall_on_rounded, .runs = bifrost_to_s32},
    [VALHALL_F32_TO_U32] = {.begin = valhall_on_rounded, .runs = bifrost_to_u32},
    [VALHALL_F16_TO_S32] = {.begin = valhall_on_half_to_word, .runs = bifrost_to_s32},
    [VALHALL_F16_TO_U32] = {.begin = valhall_on_half_to_word, .runs = bifrost_to_u32},
    [VALHALL_V2F16_TO_V2S16] = {.begin = valhall_on_rounded_halves, .run = bifrost_halves_to_s16},
    [VALHALL_V2F16_TO_V2U16] = {.begin = valhall_on_rounded_halves, .run = bifrost_halves_to_u16},
    [VALHALL_F16_TO_F32] = {.begin = valhall_on_of_half, .run = bifrost_fadd32},
    [VALHALL_V2S8_TO_V2S16] = {.begin = valhall_on_two_bytes, .run = bifrost_halves_of_s8},
    [VALHALL_V2U8_TO_V2U16] = {.begin = valhall_on_two_bytes, .run = bifrost_halves_of_u8},
    [VALHALL_V2S8_TO_V2F16] = {.begin = valhall_on_two_bytes, .run = bifrost_float_halves_of_s8},
    [VALHALL_V2U8_TO_V2F16] = {.begin = valhall_on_two_bytes, .run = bifrost_float_halves_of_u8},
    [VALHALL_FROUND_F32] = {.begin = valhall_on_rounded, .runs = bifrost_fround},
    [VALHALL_FROUND_V2F16] = {.begin = valhall_on_rounded_halves, .run = bifrost_fround16},
    [VALHALL_MOV_I32] = {.begin = valhall_on_plain, .run = bifrost_move},
    [VALHALL_CLZ_U32] = {.begin = valhall_on_plain, .run = bifrost_clz},
    [VALHALL_CLZ_V2U16] = {.begin = valhall_on_plain, .run = bifrost_clz_v2},
    [VALHALL_CLZ_V4U8] = {.begin = valhall_on_in_place, .run = bifrost_clz_v4, .detail = V4},
    [VALHALL_IABS_S32] = {.begin = valhall_on_plain, .run = bifrost_iabs, .is_signed = true},
    [VALHALL_IABS_V2S16] = {.begin = valhall_on_plain, .run = bifrost_iabs_v2, .is_signed = true},
    [VALHALL_IABS_V4S8] = {.begin = valhall_on_in_place, .run = bifrost_iabs_v4, .detail = V4},
    [VALHALL_POPCOUNT_I32] = {.begin = valhall_on_plain, .run = bifrost_popcount},
    [VALHALL_BITREV_I32] = {.begin = valhall_on_plain, .run = bifrost_bitrev},
    [VALHALL_WMASK] = {.begin = valhall_on_exchange, .run = bifrost_wmask},
    [VALHALL_CLPER_I32] = {.begin = valhall_on_exchange, .run = bifrost_clper},
    [VALHALL_FREXPM_F32] = {.begin = valhall_on_frexp_of, .runs = bifrost_frexpm},
    [VALHALL_FREXPE_F32] = {.begin = valhall_on_frexp_of, .runs = bifrost_frexpe},
    [VALHALL_FRCP_F32] = {.begin = valhall_on_plain, .run = bifrost_frcp},
    [VALHALL_FRSQ_F32] = {.begin = valhall_on_plain, .run = bifrost_frsq},
    [VALHALL_FRCP_F16] = {.begin = valhall_on_plain, .run = bifrost_frcp16},
    [VALHALL_FRSQ_F16] = {.begin = valhall_on_plain, .run = bifrost_frsq16},
    [VALHALL_FLOGD_F32] = {.begin = valhall_on_plain, .run = bifrost_flogd},
    [VALHALL_FSIN_TABLE_U6] = {.begin = valhall_on_plain, .run = bifrost_fsin_table},
    [VALHALL_FCOS_TABLE_U6] = {.begin = valhall_on_plain, .run = bifrost_fcos_table},
    [VALHALL_FADD_F32] = {.begin = valhall_on_clamped, .run = bifrost_fadd32},
    [VALHALL_FMA_F32] = {.begin = valhall_on_clamped, .run = bifrost_fma32},
    [VALHALL_FMIN_F32] = {.begin = valhall_on_clamped, .runs = bifrost_fmin32},
    [VALHALL_FMAX_F32] = {.begin = valhall_on_clamped, .runs = bifrost_fmax32},
    [VALHALL_FEXP_F32] = {.begin = valhall_on_clamped, .run = bifrost_fexp},
    [VALHALL_FADD_LSCALE_F32] = {.begin = valhall_on_clamped, .run = bifrost_fadd_lscale},
    [VALHALL_FMA_RSCALE_F32] = {.begin = valhall_on_clamped, .run = bifrost_fma_rscale},
    [VALHALL_FMA_RSCALE_N_F32] = {.begin = valhall_on_clamped, .run = bifrost_fma_rscale, .detail = RSCALE},
    [VALHALL_FMA_RSCALE_LEFT_F32] = {.begin = valhall_on_clamped,
                                     .run = bifrost_fma_rscale,
                                     .detail = RSCALE},
    [VALHALL_FADD_V2F16] = {.begin = valhall_on_halves, .run = bifrost_fadd16},
    [VALHALL_FMA_V2F16] = {.begin = valhall_on_halves, .run = bifrost_fma16},
    [VALHALL_FMIN_V2F16] = {.begin = valhall_on_larger_half, .runs = bifrost_fmin16},
    [VALHALL_FMAX_V2F16] = {.begin = valhall_on_larger_half, .runs = bifrost_fmax16},
    [VALHALL_V2F32_TO_V2F16] = {.begin = valhall_on_pair_of_floats, .run = bifrost_to_halves},
    [VALHALL_LDEXP_F32] = {.begin = valhall_on_rounded_by_detail, .run = bifrost_ldexp},
    [VALHALL_LDEXP_V2F16] = {.begin = valhall_on_rounded_halves, .run = bifrost_ldexp16},
    [VALHALL_IADD_U64] = {.begin = valhall_on_add_pair},
    [VALHALL_IADD_S64] = {.begin = valhall_on_add_pair, .is_signed = true},
    [VALHALL_SHADDX_U64] = {.begin = valhall_on_add_pair},
    [VALHALL_SHADDX_S64] = {.begin = valhall_on_add_pair, .is_signed = true},
    [VALHALL_ISUB_U64] = {.begin = valhall_on_subtract_pair},
    [VALHALL_ISUB_S64] = {.begin = valhall_on_subtract_pair},
    [VALHALL_IADD_U32] = {.begin = valhall_on_saturating,
                          .run = bifrost_iadd,
                          .runs = saturating_sums,
                          .detail = 0},
    [VALHALL_ISUB_U32] = {.begin = valhall_on_saturating,
                          .run = bifrost_isub,
                          .runs = saturating_sums,
                          .detail = 1},
    [VALHALL_IADD_S32] = {.begin = valhall_on_saturating,
                          .run = bifrost_iadd,
                          .runs = saturating_sums,
                          .detail = 2,
                          .is_signed = true},
    [VALHALL_ISUB_S32] = {.begin = valhall_on_saturating,
                          .run = bifrost_isub,
                          .runs = saturating_sums,
                          .detail = 3,
                          .is_signed = true},
    [VALHALL_IADD_V2S16] = {.begin = valhall_on_saturating,
                            .runs = bifrost_add_v2,
                            .detail = 1,
                            .is_signed = true},
    [VALHALL_IADD_V2U16] = {.begin = valhall_on_saturating, .runs = bifrost_add_v2, .detail = 2},
    [VALHALL_ISUB_V2S16] = {.begin = valhall_on_saturating,
                            .runs = bifrost_add_v2,
                            .detail = 4,
                            .is_signed = true},
    [VALHALL_ISUB_V2U16] = {.begin = valhall_on_saturating, .runs = bifrost_add_v2, .detail = 5},
    [VALHALL_IADD_V4S8] = {.begin = valhall_on_saturating, .runs = bifrost_add_v4, .detail = 1},
    [VALHALL_IADD_V4U8] = {.begin = valhall_on_saturating, .runs = bifrost_add_v4, .detail = 2},
    [VALHALL_ISUB_V4S8] = {.begin = valhall_on_saturating, .runs = bifrost_add_v4, .detail = 4},
    [VALHALL_ISUB_V4U8] = {.begin = valhall_on_saturating, .runs = bifrost_add_v4, .detail = 5},
    [VALHALL_IMUL_I32] = {.begin = valhall_on_multiplied, .runs = bifrost_imad},
    [VALHALL_IMUL_S32] = {.begin = valhall_on_multiplied, .runs = bifrost_imad, .is_signed = true},
    [VALHALL_IMUL_V2I16] = {.begin = valhall_on_multiplied, .run = bifrost_imul_v2},
    [VALHALL_IMUL_V2S16] = {.begin = valhall_on_multiplied, .run = bifrost_imul_v2, .is_signed = true},
    [VALHALL_IMUL_V4I8] = {.begin = valhall_on_multiplied, .run = bifrost_imul_v4},
    [VALHALL_IMUL_V4S8] = {.begin = valhall_on_multiplied, .run = bifrost_imul_v4},
    [VALHALL_HADD_S32] = {.begin = valhall_on_mean, .detail = 0, .is_signed = true},
    [VALHALL_HADD_U32] = {.begin = valhall_on_mean, .detail = 1},
    [VALHALL_HADD_V2S16] = {.begin = valhall_on_mean, .detail = 2, .is_signed = true},
    [VALHALL_HADD_V2U16] = {.begin = valhall_on_mean, .detail = 3},
    [VALHALL_HADD_V4S8] = {.begin = valhall_on_mean, .detail = 4},
    [VALHALL_HADD_V4U8] = {.begin = valhall_on_mean, .detail = 5},
    [VALHALL_MKVEC_V2I16] = {.begin = valhall_on_two_halves, .run = bifrost_mkvec_halves},
    [VALHALL_MKVEC_V2I8] = {.begin = valhall_on_bytes_and_half, .run = bifrost_mkvec_bytes},
    [VALHALL_MUX_I32] = {.begin = valhall_on_mux, .runs = bifrost_mux},
    [VALHALL_MUX_V2I16] = {.begin = valhall_on_mux, .runs = bifrost_mux_v2},
    [VALHALL_MUX_V4I8] = {.begin = valhall_on_mux_bytes, .runs = bifrost_mux_v4, .detail = V4},
    [VALHALL_ICMP_MULTI_U32] = {.begin = valhall_on_compare_pair, .runs = bifrost_icmpf_u32},
    [VALHALL_ICMP_MULTI_S32] = {.begin = valhall_on_compare_pair,
                                .runs = bifrost_icmpf_s32,
                                .is_signed = true},
    [VALHALL_IADD_IMM_I32] = {.begin = valhall_on_immediate, .run = bifrost_iadd, .detail = ~0u},
    [VALHALL_IADD_IMM_V2I16] = {.begin = valhall_on_immediate, .runs = bifrost_add_v2, .detail = V2},
    [VALHALL_IADD_IMM_V4I8] = {.begin = valhall_on_immediate, .runs = bifrost_add_v4, .detail = V4},
    [VALHALL_FADD_IMM_F32] = {.begin = valhall_on_immediate, .run = bifrost_fadd32, .detail = ~0u},
    [VALHALL_FADD_IMM_V2F16] = {.begin = valhall_on_immediate_halves,
                                .run = bifrost_fadd16,
                                .detail = HALVES},
    SHIFTS(VALHALL_AND, AND),
    SHIFTS(VALHALL_OR, OR),
    SHIFTS(VALHALL_XOR, XOR),
    COMPARISONS(OR, 0),
    COMPARISONS(AND, 256),
};

bool valhall_is_signed(enum valhall_operation operation)
{
    return meanings[operation].is_signed;
}

bool valhall_compute(struct valhall_step *step)
{
    const struct valhall_meaning *meaning = &meanings[step->operation];

    return meaning->begin ? meaning->begin(step, meaning)
                          : valhall_refuse(step, "an instruction that is not modelled");
}
