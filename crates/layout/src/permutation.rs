//! The orders of the children of dRAID vdevs. They are computed from a number for each count of children, and are the
//! same for all vdevs of that count.

use std::sync::OnceLock;

/// Half of the state of the generator, for all counts.
const SEED: u64 = 0x000d_7a1d_5eed;
/// Up to so many children there are fewer permutations.
const FEW_CHILDREN_MAX: u8 = 31;
const FEW: usize = 256;
const MANY: usize = 512;

/// The permutations for one count of children.
pub(crate) struct Permutations {
    children: u8,
    rows: Box<[u8]>,
}

impl Permutations {
    /// All of them, one after the other.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.rows
    }

    /// The child that the permutation of a slice puts at a place: each row of the table serves as many slices as there
    /// are children, turned by one child after the other. After the last comes the first again.
    pub(crate) fn child_at(&self, slice: u64, place: u64) -> u64 {
        let width = usize::from(self.children).max(1);
        let (row, turn) = (slice / width as u64, slice % width as u64);
        let count = (self.rows.len() / width).max(1);
        let row = (row % count as u64) as usize;
        let place = (place as usize).min(width - 1);
        let base = self.rows.get(row * width + place).copied().unwrap_or(0);
        (u64::from(base) + turn) % width as u64
    }

    fn new(children: u8) -> Self {
        let seed = SEEDS.get(usize::from(children)).copied().unwrap_or(0);
        let mut generator = Generator(SEED, seed);
        let count = if children <= FEW_CHILDREN_MAX {
            FEW
        } else {
            MANY
        };
        let mut row: Vec<u8> = (0..children).collect();
        let mut rows = Vec::with_capacity(count * row.len());
        for _ in 0..count {
            for last in (1..row.len()).rev() {
                let other = generator.next() % (last as u64 + 1);
                row.swap(last, other as usize);
            }
            rows.extend_from_slice(&row);
        }
        Self {
            children,
            rows: rows.into(),
        }
    }
}

/// The permutations for a count of children, made when they are wanted first.
pub(crate) fn of(children: u8) -> &'static Permutations {
    static TABLES: [OnceLock<Permutations>; 256] = [const { OnceLock::new() }; 256];
    TABLES[usize::from(children)].get_or_init(|| Permutations::new(children))
}

/// The generator `xoroshiro128++`.
struct Generator(u64, u64);

impl Generator {
    const fn next(&mut self) -> u64 {
        let Self(a, b) = *self;
        let drawn = a.wrapping_add(b).rotate_left(17).wrapping_add(a);
        let b = b ^ a;
        self.0 = a.rotate_left(49) ^ b ^ (b << 21);
        self.1 = b.rotate_left(28);
        drawn
    }
}

/// The other half of the state, by the count of children.
///
/// Source: the format notes, "dRAID".
const SEEDS: [u64; 256] = [
    0,
    0,
    0x89ef_3dab_bcc7_de37,
    0x89a5_7f3d_e981_21b4,
    0xc9ea_9ec8_2340_c885,
    0xf467_33b7_f4d4_7dfd,
    0x88c3_c62d_8585_b362,
    0x3a65_d809_b4d1_b9d5,
    0xe989_30e3_c5d2_e90a,
    0x5a54_3003_6b98_2ccb,
    0x92bf_389e_9ead_ac74,
    0x74cc_ebf1_dcf3_ae80,
    0x8847_e41a_1a9f_5671,
    0x7481_b56d_ebf0_e637,
    0x559b_8c44_065f_8967,
    0x34c4_9545_a2ee_7f01,
    0xb85f_4fa8_1a76_98f7,
    0x6353_e47b_7e47_aba0,
    0xaa54_9746_b1cb_b81c,
    0x892e_343f_2f31_d690,
    0x7691_4824_db98_cc3f,
    0x4b3c_babf_9cfb_1d0f,
    0xf45c_77ab_b4f0_35d4,
    0x5e18_bd7f_3fd4_baf4,
    0xa7b3_a4d2_85d6_503b,
    0x56ac_7dd9_6752_1f5a,
    0x3a42_dfda_4eb8_80f7,
    0xd200_d2fc_6b54_bf60,
    0xc526_05bb_d486_c546,
    0xc761_779e_63cd_762f,
    0xca57_7b1e_07f8_5ca5,
    0xfd50_a593_c518_b3d4,
    0xc6c8_7ba5_b042_650b,
    0xc388_0d0c_9d45_8304,
    0xe920_927e_4d8b_2c97,
    0x8da7_fcda_87bd_e316,
    0xcf09_9374_9151_4a29,
    0x9b5a_bbf3_45cb_d7cc,
    0x5063_12a4_4668_d6a9,
    0x7165_9ede_62b4_755f,
    0xa7fd_e73f_b74c_f2d7,
    0x19e8_b461_a1de_a1d3,
    0x031c_9b86_8cc3_e976,
    0xbaa5_125f_aa78_1854,
    0x4ed5_5052_550d_721b,
    0x0fd6_3ddb_dff9_0677,
    0x36d6_6546_de7f_dd6f,
    0x99f9_97e7_eafb_69d7,
    0xbecd_9c25_7131_2c5d,
    0xd973_7132_9e48_8a32,
    0x30e9_b136_6707_49ee,
    0x11ad_6bc8_f47a_aeb4,
    0x68e4_4530_0af4_32c1,
    0x910f_b561_657e_a98c,
    0xd619_693d_8ce5_e7a5,
    0x24e2_81f5_64db_b60a,
    0x947a_7d3b_daab_44c5,
    0x2d44_fec9_c093_e0de,
    0x8774_3c27_2d29_bb4c,
    0x96aa_3b6f_67f5_d923,
    0x94a4_f1fa_f520_b0d3,
    0xb13e_d3a2_72f7_11a2,
    0x3b1b_1180_5fa4_a64a,
    0x4c74_caad_9172_ba71,
    0x035f_f643_923d_d29e,
    0x768e_9171_b11a_bd3c,
    0x7588_0e6f_78a1_3ddd,
    0x910b_9714_f698_a877,
    0x87f5_db6f_9fdc_f5c7,
    0x836d_4968_fbaa_3706,
    0xc567_d73a_0364_21ab,
    0x619d_f40f_240b_8fed,
    0x4276_3a68_0d5b_ed8e,
    0x5866_f064_b323_0431,
    0x9fa0_8548_b162_1a44,
    0xb605_3078_ce0f_c303,
    0x4a7a_ad7b_f389_0923,
    0xe165_613f_d75b_5a53,
    0x3ff1_54ac_8781_63a6,
    0x24b9_3ade_0aa8_a532,
    0xc18e_2d14_cd9b_b554,
    0x98cc_7830_2feb_58b6,
    0xc6c5_fd5a_2abc_0543,
    0xa796_2f51_4acb_ba21,
    0xba02_5450_69dd_c6dc,
    0x447c_7319_2c35_073e,
    0x48be_ef9e_2d42_b0c2,
    0x4874_cf98_541a_35e0,
    0xad4c_f833_3a31_127a,
    0x47ae_4859_d578_88c1,
    0x06f7_723c_fe5d_1891,
    0xd4e4_4218_d660_576d,
    0x7066_702b_0d5b_e1f2,
    0x0112_09b4_f9e1_1fb9,
    0x47ff_ba30_a0b3_5708,
    0x1a95_a6ac_4538_aaa8,
    0xbda2_b239_bb20_08eb,
    0x7ffa_0bea_9035_5c6c,
    0x1d56_ba34_be42_6795,
    0x0aa8_9d45_c502_e93d,
    0x5436_9449_f685_7774,
    0xf7d4_dd84_45b4_6765,
    0xfa88_6631_2f16_9469,
    0xd8a5_aea0_8aef_3ff9,
    0x66bc_d2c3_d5f9_ef0e,
    0x3fb1_3a47_a012_ec81,
    0x4310_0f01_c9e5_e3ca,
    0xca09_c50c_cee2_d054,
    0xd717_6732_ac50_3f9b,
    0xed20_6e51_f8d9_422d,
    0x17ea_d5dc_6ba0_dcd6,
    0x5f1d_c21e_38a9_69eb,
    0xddaa_973d_e33e_c528,
    0x2a5e_ccd7_735a_3630,
    0xafcc_cee5_c0b7_1446,
    0x8fa3_0c5e_7b14_7e27,
    0x5afe_0711_fdfa_fd82,
    0x533a_6090_238a_fd4c,
    0x90cf_11b5_95e3_9a84,
    0x0d61_a3b8_0944_4009,
    0x7f34_da0f_54b0_d114,
    0xa522_58d5_b72f_6551,
    0xc1de_54d7_6728_78db,
    0x1d03_3543_16a4_14ab,
    0xcebd_cc37_7665_412c,
    0x4ddd_4c04_b1a1_2344,
    0x64fc_8f94_e397_3658,
    0x6876_5f78_034a_334e,
    0xaf36_b871_a303_e816,
    0x2a4c_bf73_866c_3a28,
    0x9cb1_28aa_cdcd_3b2f,
    0x5511_d41c_5586_9124,
    0x42f9_2461_937f_284a,
    0xe2d8_9a1c_f6f1_f287,
    0xdc63_1a03_8956_200e,
    0xb2e5_ac22_2cd2_36be,
    0xbc7d_8236_655d_88e7,
    0x073e_02d8_8d2d_8e75,
    0x3ddb_9c38_7316_6be0,
    0x7d3b_1a84_5420_e1b5,
    0x6010_2308_aa7b_2a6c,
    0xdb22_bb2f_9eb8_94aa,
    0xd853_f879_a13b_1606,
    0x0016_20a0_3f80_4b1d,
    0xfdb5_2dda_76fb_f667,
    0xa916_0110_f66e_24ff,
    0x7730_6a30_379a_e03b,
    0x14f5_985d_2752_319d,
    0xa4b8_ff11_de78_63f8,
    0x44b3_4542_6455_c1b3,
    0x2726_7782_6049_b46c,
    0x2f92_16e2_cd74_fe40,
    0x706a_e3e7_63ad_8771,
    0xf7fd_3453_07c2_480e,
    0x6e94_e3d2_6b31_39eb,
    0x5458_bbfb_b781_fcba,
    0xa80e_2afe_ccd9_3b33,
    0x1e4c_cbb2_2796_cf9d,
    0x8fba_4b67_6aaa_3663,
    0xf82b_8438_14b3_15fa,
    0x7f21_e920_ecf7_53a3,
    0x48bb_8ea2_c4ca_a620,
    0x5cdb_652b_4952_c91b,
    0x6ac1_ba6f_78c0_6cd4,
    0x9faf_5f9c_a266_9a56,
    0xaa57_e938_3eb0_1194,
    0x8969_67bf_495c_34d2,
    0xdfad_5f05_de22_5f1b,
    0xfd29_9a99_f9f2_abdd,
    0xdda2_39e7_98fe_9fd4,
    0x5fca_6704_14a3_2c3e,
    0x1bb8_9343_14b0_87de,
    0xd963_94b4_b082_200d,
    0xb612_a773_5b1c_8cbc,
    0x28e7_430f_e587_5fe1,
    0x5038_e89e_fdd9_81b9,
    0x075f_d78f_1d14_db7c,
    0xc50f_afdb_5021_be15,
    0xe6dc_7572_ce7b_91c7,
    0x21f7_843e_7bed_a537,
    0xc833_85e2_0b43_ec82,
    0xca81_8217_dddb_21fd,
    0xe603_5def_ea48_f933,
    0x4726_2a4f_953d_ac5a,
    0xe24c_7246_2608_73ea,
    0xeef6_b57c_9b58_e9e1,
    0x2bec_d334_6e38_6142,
    0x63c6_207b_df3b_40a3,
    0x3056_ce89_8976_7d4b,
    0x91af_61c3_07ce_e780,
    0xda35_9da2_25f6_d54f,
    0x0a5f_7a2a_5560_7ba0,
    0x27bb_75bf_5224_638a,
    0x1ebf_db94_630f_5d0f,
    0x6eae_5e51_d9c5_f6fb,
    0x08d9_03b4_daed_c2e0,
    0xc722_a2f7_fa7c_d686,
    0x8f71_faf0_e54e_361d,
    0x87f6_4695_c91a_54e7,
    0xc719_cbac_2c33_6b92,
    0xe7e6_47af_af77_1ade,
    0x12d4_b5c3_8ce8_c946,
    0xf2e0_cd40_67bd_c94a,
    0x21b7_9f14_d6d9_47d3,
    0x5150_93f9_52f1_8cd6,
    0xd47b_160a_1b10_22c8,
    0xc02f_c966_8471_5a16,
    0xef51_e68e_fba7_2ed0,
    0x9e3b_e6e5_448b_4f33,
    0x81d4_46c6_d5fe_c063,
    0xff21_5de8_224e_57d5,
    0xe252_4d9b_a8f6_9796,
    0xf6b2_8e26_097b_7e4b,
    0x893a_487f_30ce_1644,
    0x3865_66c3_fc98_71df,
    0x1e0e_d78e_df1f_558a,
    0xe3bc_20c3_1e61_f113,
    0xd6c3_ad2e_2302_1882,
    0xb4a9_f95c_f0f6_9c5a,
    0x6e98_ed6f_6c38_e82f,
    0x2e01_edba_33fd_dac7,
    0x559d_02e1_f5f5_7ccc,
    0xac18_f5a9_16ad_cd8e,
    0x1578_9fba_ddb8_6f4b,
    0xf4a9_c36d_5bc4_c408,
    0xf640_f90f_d272_7f44,
    0xb531_3d39_0d61_884a,
    0x4bae_6b3c_e916_0939,
    0x838c_3448_0f1a_66a1,
    0xb1c4_a52c_8e3d_6060,
    0xe0f1_110c_6d0e_d822,
    0x9f1a_8ccd_cea6_8d4b,
    0x3261_ed62_223f_3099,
    0xf219_1e23_1102_2d65,
    0xf102_a395_c203_3abc,
    0x11fe_378f_0279_06b6,
    0xf777_f2c0_26b3_37aa,
    0x1b04_e9c2_ee14_3f32,
    0x2fce_c952_66f9_352c,
    0xfe2b_0e47_e427_dd85,
    0x72b4_9bf2_225f_6c6d,
    0x5048_6b43_df7d_f9c7,
    0x5192_a3e5_3181_c8ab,
    0xe9f5_d836_5296_fd5e,
    0xc740_263f_0301_efa8,
    0x23cd_0f2b_5671_e67d,
    0x002c_cc7e_5cd4_1390,
    0x9aaf_b3c0_2544_b31b,
    0x72ba_07a7_8b12_1999,
    0x3d78_4aa5_8edf_c7b4,
    0xaab7_5042_4d80_04af,
    0x8440_3fcf_8e6b_5ca2,
    0x71eb_7455_ec98_e207,
    0xd752_b4f1_9301_595b,
    0xc467_4129_7504_99de,
    0x9772_baff_5cd1_2ef5,
];

#[cfg(test)]
mod tests;
